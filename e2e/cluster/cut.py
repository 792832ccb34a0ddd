"""A pod cut off from the cluster, while clients on this machine still reach it.

That is the worse cut of the two: what nobody can reach can mislead nobody.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import layout
from e2e.cluster.shell import run

TABLE = "chiplog-cut"


@contextmanager
def off(pod_ip: str) -> Iterator[None]:
    """Without the API server and without any other pod, on open connections too."""
    run("nft", "-f", "-", input_text=rules(pod_ip))
    try:
        yield
    finally:
        run("nft", "delete", "table", "inet", TABLE)


def rules(pod_ip: str) -> str:
    """Before any of Kubernetes' own rules; packets are dropped, so nobody is told."""
    server, port = layout.API_SERVER.ip, layout.API_SERVER.number
    hook = "type filter hook {} priority -20; policy accept;"
    return f"""table inet {TABLE} {{
  chain forward {{
    {hook.format("forward")}
    ip saddr {pod_ip} drop
    ip daddr {pod_ip} drop
  }}
  chain input {{
    {hook.format("input")}
    ip saddr {pod_ip} ip daddr {server} tcp dport {port} drop
  }}
  chain output {{
    {hook.format("output")}
    ip saddr {server} ip daddr {pod_ip} tcp sport {port} drop
  }}
}}
"""
