"""What the cluster changes on the machine itself, recorded so that all of it is undone.

Addresses on `lo`, one route, kernel settings, the nodes' bridges, firewall rules.
The record is written before the first change and removed after the last is undone:
while it exists, what it covers is ours to remove, whichever checkout made it;
without it nothing of the kind is touched.
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
# Pods reach each other by routing; policies see traffic within one bridge as well.
WANTED = {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}


def setting(name: str) -> Path:
    return Path("/proc/sys") / name


def remember() -> None:
    """Record the machine as it is, unless an earlier record still stands."""
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
    """Give the machine what the nodes need. May be called again while they run."""
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
    """Undo `prepare` and what the cluster's programs added. No process of it may be left."""
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
    """The kernel removes the pods' links a moment after their last process ended."""
    deadline_s = time.monotonic() + 10
    while (left := run("ip", "-o", "link")) and any(
        f"master {node.bridge} " in left for node in layout.NODES
    ):
        if time.monotonic() > deadline_s:
            raise CommandFailed(["ip", "link"], 0, left)
        time.sleep(0.05)
