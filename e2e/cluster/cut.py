"""Pods cut off from parts of the cluster, or from their clients; packets are dropped silently.

`off` is the worse of the two whole cuts: clients on this machine still reach the pod, and what
nobody can reach can mislead nobody.
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
    """What is dropped: conditions of nft, by the hook that packets pass."""

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
    drops = "".join(f"    {one} counter drop\n" for one in conditions)
    return f"  chain {name} {{\n    {HOOK.format(name)}\n{drops}  }}\n"


def whole(pod_ip: str) -> Cut:
    """Without the API server and without any other pod."""
    return Cut(
        forward=(f"ip saddr {pod_ip}", f"ip daddr {pod_ip}"),
        input=(f"ip saddr {pod_ip} {TO_API_SERVER}",),
        output=(f"ip daddr {pod_ip} {FROM_API_SERVER}",),
    )


def outgoing(pod_ip: str) -> Cut:
    """What it sends to the API server and to other pods; what they send arrives."""
    return Cut(forward=(f"ip saddr {pod_ip}",), input=(f"ip saddr {pod_ip} {TO_API_SERVER}",))


def from_api_server(pod_ip: str) -> Cut:
    """Without the API server, but with all other pods."""
    one = whole(pod_ip)
    return Cut(input=one.input, output=one.output)


def from_clients(pod_ip: str, ports: tuple[int, ...]) -> Cut:
    """Without the processes of this machine that connect to these ports; all else is as it was."""
    listed = ", ".join(map(str, ports))
    return Cut(
        input=(f"ip saddr {pod_ip} tcp sport {{ {listed} }}",),
        output=(f"ip daddr {pod_ip} tcp dport {{ {listed} }}",),
    )


def everything(cidr: str) -> Cut:
    """Without anybody at all: a machine that has no power."""
    both = (f"ip saddr {cidr}", f"ip daddr {cidr}")
    return Cut(forward=both, input=both[:1], output=both[1:])


@contextmanager
def made(cut: Cut) -> Iterator[None]:
    """Within the block, on open connections too. One cut at a time."""
    run("nft", "-f", "-", input_text=cut.rules())
    try:
        yield
    finally:
        run("nft", "delete", "table", "inet", TABLE)


@contextmanager
def off(pod_ip: str) -> Iterator[None]:
    """Without the API server and without any other pod, on open connections too."""
    with made(whole(pod_ip)):
        yield


def dropped() -> int:
    """How many packets the cut of now has dropped."""
    found = json.loads(run("nft", "--json", "list", "table", "inet", TABLE))
    return sum(
        part["counter"]["packets"]
        for one in found["nftables"]
        for part in one.get("rule", {}).get("expr", ())
        if "counter" in part
    )
