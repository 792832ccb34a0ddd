"""Network cuts: nft rules that silently drop a pod's packets to and from parts of the cluster.

`off` leaves the pod reachable for clients on this machine. That is harder on Chiplog than a pod
that nobody reaches: an isolated leader could still answer its clients wrongly.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.cluster import layout
from e2e.cluster.shell import run

TABLE = "chiplog-cut"
# Before any of Kubernetes' own rules, and after its translation of service addresses.
HOOK = "type filter hook {} priority -20; policy accept;"
TO_API_SERVER = f"ip daddr {layout.API_SERVER.ip} tcp dport {layout.API_SERVER.number}"
FROM_API_SERVER = f"ip saddr {layout.API_SERVER.ip} tcp sport {layout.API_SERVER.number}"


@dataclass(frozen=True, slots=True)
class Cut:
    """The packets to drop: for each nft hook the conditions; a packet that meets one is dropped."""

    forward: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()

    def rules(self) -> str:
        """The rules in nft's syntax."""
        chains = "".join(
            chain(name, found)
            for name, found in (
                ("forward", self.forward),
                ("input", self.input),
                ("output", self.output),
            )
            if found
        )
        return f"table inet {TABLE} {{\n{chains}}}\n"


def chain(name: str, conditions: tuple[str, ...]) -> str:
    """An nft chain on the hook `name` that drops and counts packets that meet a condition."""
    drops = "".join(f"    {one} counter drop\n" for one in conditions)
    return f"  chain {name} {{\n    {HOOK.format(name)}\n{drops}  }}\n"


def whole(pod_ip: str) -> Cut:
    """Cut the pod off from the API server and from all other pods, in both directions."""
    return Cut(
        forward=(f"ip saddr {pod_ip}", f"ip daddr {pod_ip}"),
        input=(f"ip saddr {pod_ip} {TO_API_SERVER}",),
        output=(f"ip daddr {pod_ip} {FROM_API_SERVER}",),
    )


def outgoing(pod_ip: str) -> Cut:
    """Drop only what the pod sends to the API server and to other pods; it still receives."""
    return Cut(forward=(f"ip saddr {pod_ip}",), input=(f"ip saddr {pod_ip} {TO_API_SERVER}",))


def from_api_server(pod_ip: str) -> Cut:
    """Cut the pod off from the API server, in both directions; other pods stay reachable."""
    both = whole(pod_ip)
    # Only traffic between pods is forwarded; the API server is a process of this machine.
    return Cut(input=both.input, output=both.output)


def from_clients(pod_ip: str, ports: tuple[int, ...]) -> Cut:
    """Cut off clients on this machine that connect to these ports of the pod, and nothing else."""
    listed = ", ".join(map(str, ports))
    return Cut(
        input=(f"ip saddr {pod_ip} tcp sport {{ {listed} }}",),
        output=(f"ip daddr {pod_ip} tcp dport {{ {listed} }}",),
    )


def everything(cidr: str) -> Cut:
    """Drop everything from and to the addresses of `cidr`, as if that machine had no power."""
    both = (f"ip saddr {cidr}", f"ip daddr {cidr}")
    return Cut(forward=both, input=both[:1], output=both[1:])


@contextmanager
def made(cut: Cut) -> Iterator[None]:
    """Apply the cut while the block runs, to open connections, too.

    There can be only one cut at a time: all use the same nft table.
    """
    run("nft", "-f", "-", input_text=cut.rules())
    try:
        yield
    finally:
        run("nft", "delete", "table", "inet", TABLE)


@contextmanager
def off(pod_ip: str) -> Iterator[None]:
    """Cut the pod off from the API server and all other pods while the block runs."""
    with made(whole(pod_ip)):
        yield


def dropped() -> int:
    """How many packets the current cut has dropped up to now."""
    found = json.loads(run("nft", "--json", "list", "table", "inet", TABLE))
    return sum(
        part["counter"]["packets"]
        for one in found["nftables"]
        for part in one.get("rule", {}).get("expr", ())
        if "counter" in part
    )
