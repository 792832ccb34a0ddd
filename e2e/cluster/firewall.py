"""The firewall rules that kube-proxy and the cluster's agent make, and their removal.

Kubernetes' chains are all named KUBE-*. Whether the chains found belong to this cluster is not
decided here: `host.py` keeps the record of that.
"""

import shutil
from collections.abc import Collection

from e2e.cluster import layout
from e2e.cluster.shell import run

FAMILIES = ("iptables", "ip6tables")


def has_kubernetes_chains() -> bool:
    """Whether this machine has any KUBE-* chain."""
    if shutil.which("iptables-save") is None:
        return False
    return any(":KUBE-" in run(f"{family}-save") for family in FAMILIES)


def tables() -> list[str]:
    """Every nft table of this machine as "family name", like "inet chiplog-netpol"."""
    return [line.removeprefix("table ") for line in run("nft", "list", "tables").splitlines()]


def remove(tables_before: Collection[str]) -> None:
    """Remove all KUBE-* chains, the agent's table, and the empty tables not in `tables_before`."""
    for family in FAMILIES:
        if script := removal(run(f"{family}-save")):
            run(f"{family}-restore", "--noflush", input_text=script)
    for table in set(tables()) - set(tables_before):
        family_and_name = table.split()
        listing = run("nft", "list", "table", *family_and_name)
        if family_and_name[1] == layout.NFT_TABLE or is_empty(listing):
            run("nft", "delete", "table", *family_and_name)


def removal(saved: str) -> str:
    """An `iptables-restore --noflush` script that undoes every KUBE-* rule in `saved`.

    `saved` is what iptables-save prints. In each table the rules of other chains that
    jump into ours go first, then our chains are emptied, then removed: the kernel
    refuses to remove a chain that something still names.
    """
    script: list[str] = []
    # Of the current table: its KUBE-* chains, and "-D" commands for the rules that jump into them.
    chains: list[str] = []
    jumps: list[str] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            chains, jumps, table = [], [], line
        elif line.startswith(":KUBE-"):
            chains.append(line[1:].split()[0])
        elif line.startswith("-A ") and not line.startswith("-A KUBE-") and " KUBE-" in line:
            jumps.append(line.replace("-A ", "-D ", 1))
        elif line == "COMMIT" and (chains or jumps):
            # With --noflush, ":CHAIN - [0:0]" empties a chain that exists.
            script += [table, *(f":{chain} - [0:0]" for chain in chains), *jumps]
            script += [*(f"-X {chain}" for chain in chains), "COMMIT"]
    return "\n".join([*script, ""]) if script else ""


def is_empty(listing: str) -> bool:
    """Whether `nft list table` shows chains without a rule, and nothing else.

    A base chain's own line ends with its policy, which is not a rule.
    """
    content = [line.strip() for line in listing.splitlines()[1:]]
    return all(
        not line or line == "}" or line.startswith(("chain ", "type ", "#")) for line in content
    )
