"""What the cluster changes on the machine itself, recorded so that all of it can be undone.

It changes addresses on `lo`, one route, kernel settings, the nodes' bridges and firewall rules.
The record of the former state is written before the first change and removed after the last is
undone. While it exists, these things are a local cluster's and may be removed, no matter which
checkout made them; without it none of them is touched.
"""

import json
import time
from pathlib import Path

from e2e.cluster import firewall, layout
from e2e.cluster.shell import CommandFailed, run

RECORD = layout.STATE / "host-before.json"

# Set by us, by kubelets (`kernel.*`, `vm.*`) or by kube-proxy (`route_localnet`).
SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
# The first lets pods of different nodes reach each other; the second makes network policies apply
# between pods on one bridge, too.
WANTED = {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}


def setting(name: str) -> Path:
    return Path("/proc/sys") / name


def remember() -> None:
    """Record the machine's settings and nft tables, unless there is a record already.

    An earlier record describes the machine before any change, so it is kept.
    """
    if RECORD.exists():
        return
    settings = {
        name: setting(name).read_text().strip() for name in SETTINGS if setting(name).exists()
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    making = RECORD.with_suffix(".new")
    making.write_text(json.dumps({"settings": settings, "nft_tables": firewall.tables()}))
    making.rename(RECORD)


def prepare() -> None:
    """Set up the addresses, the route and the kernel settings that the nodes need.

    May be called again while the nodes run.
    """
    remember()
    for name, value in WANTED.items():
        if setting(name).exists():
            setting(name).write_text(value)
    for node in layout.NODES:
        run("ip", "address", "replace", f"{node.ip}/32", "dev", "lo")
    # A pod's address whose bridge is down must be unreachable at once, and never
    # leave this machine by its default route.
    run("ip", "route", "replace", "unreachable", layout.POD_CIDR)


def restore() -> None:
    """Undo `prepare` and what the cluster's programs added; does nothing without a record.

    No process of the cluster may run any more.
    """
    if not RECORD.exists():
        return
    before = json.loads(RECORD.read_text())
    for node in layout.NODES:
        run("ip", "link", "delete", node.bridge, check=False)
        run("ip", "address", "delete", f"{node.ip}/32", "dev", "lo", check=False)
    run("ip", "route", "delete", "unreachable", layout.POD_CIDR, check=False)
    firewall.remove(before["nft_tables"])
    for name, value in before["settings"].items():
        if setting(name).read_text().strip() != value:
            setting(name).write_text(value)
    wait_for_links()
    RECORD.unlink()


def wait_for_links() -> None:
    """Wait until the pods' network links are gone.

    The kernel removes them a moment after the last process of a pod ended. Raises `CommandFailed`
    after 10 s.
    """
    deadline_s = time.monotonic() + 10
    while (left := run("ip", "-o", "link")) and any(
        f"master {node.bridge} " in left for node in layout.NODES
    ):
        if time.monotonic() > deadline_s:
            raise CommandFailed(["ip", "link"], 0, left)
        time.sleep(0.05)
