"""Checks whether the local cluster can run on this machine, before anything is changed.

Each refusal is one line that names the obstacle and a remedy.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from e2e.cluster import firewall, layout, processes
from e2e.cluster.console import Refused
from e2e.cluster.shell import run

TWO_WAYS = (
    "use root on Debian 12, or CLUSTER=kind with a Docker engine / CLUSTER=current CONTEXT=name "
    "(`make check` needs none of them)"
)


def require_this_machine() -> None:
    """Raise `Refused` unless this is Linux with apt-get, and we are root."""
    missing = (
        "Linux"
        if sys.platform != "linux"
        else "root"
        if os.geteuid() != 0
        else "apt-get"
        if shutil.which("apt-get") is None
        else None
    )
    if missing:
        raise Refused(f"the local cluster needs {missing}, which is missing here: {TWO_WAYS}")


def require_free_machine() -> None:
    """Raise `Refused` if something else uses the cluster's addresses, ports or firewall chains.

    Must be called when no process of a local cluster runs: what is in use then is not ours.
    """
    if foreign := foreign_addresses():
        raise Refused(
            f"{foreign} lies in the cluster's networks ({layout.POD_CIDR}, {layout.SERVICE_CIDR}): "
            "remove that address or run on another machine"
        )
    for port in layout.PORTS:
        if owner := port_owner(port):
            raise Refused(
                f"{port.ip}:{port.number} for {port.purpose} is taken by {owner}: "
                "stop that process and try again"
            )
    if firewall.has_kubernetes_chains():
        raise Refused(
            "another Kubernetes keeps KUBE-* firewall chains on this machine: stop it and remove "
            "them (kube-proxy --cleanup), or use another machine"
        )


def foreign_addresses() -> str:
    """An address in the cluster's networks that this machine already has, as "ADDRESS on
    INTERFACE".

    "" if there is none.
    """
    for line in run("ip", "-o", "-4", "addr").splitlines():
        fields = line.split()
        name, address = fields[1], fields[3]
        if address.startswith(("198.18.", "198.19.")):
            return f"{address} on {name}"
    return ""


def port_owner(port: layout.Port) -> str:
    """The process that listens on `port` now, as "pid N (command)"; "" if the port is free."""
    inodes = {
        inode
        for ip, number, inode in listening()
        if number == port.number and ip in {port.ip, "0.0.0.0"}  # noqa: S104 - compared, not bound
    }
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in processes.pids():
        if wanted & set(open_files(pid)):
            return f"pid {pid} ({processes.command_line(pid)[:80]})"
    # The socket is visible, but none of the processes that we see has it open.
    return "a process of another pid namespace"


def open_files(pid: int) -> Iterator[str]:
    """The link target of each open file descriptor of a process, like "socket:[1234]".

    Descriptors that are closed while this reads are left out.
    """
    directory = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208 - a list: nothing of our own stays open
            with suppress(OSError):
                yield str(Path(directory, name).readlink())


def listening() -> list[tuple[str, int, str]]:
    """(address, port, inode) of every TCP socket that listens on an IPv4 address.

    A socket on the IPv6 wildcard address counts as one on 0.0.0.0; other IPv6 sockets do not.
    """
    found = []
    for table in ("tcp", "tcp6"):
        for line in (processes.PROC / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] != "0A":  # TCP_LISTEN
                continue
            address, _, number = fields[1].partition(":")
            if table == "tcp":
                ip = socket.inet_ntoa(
                    bytes.fromhex(address)[::-1]
                )  # the kernel writes it in host order
            elif set(address) == {"0"}:
                ip = "0.0.0.0"  # noqa: S104 - an IPv6 wildcard takes the IPv4 port too
            else:
                continue
            found.append((ip, int(number, 16), fields[9]))
    return found
