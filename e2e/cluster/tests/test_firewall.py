"""Undoing firewall rules: nothing of ours stays, nothing of another's goes."""

from e2e.cluster import firewall

SAVED = """# Generated
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SEP-ABC - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A KUBE-SERVICES -d 198.19.0.1/32 -j KUBE-SEP-ABC
COMMIT
*filter
:INPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
COMMIT
"""


def test_removal_takes_jumps_first_then_chains_and_leaves_others_rules() -> None:
    assert firewall.removal(SAVED).splitlines() == [
        "*nat",
        ":KUBE-SERVICES - [0:0]",
        ":KUBE-SEP-ABC - [0:0]",
        '-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        "-X KUBE-SERVICES",
        "-X KUBE-SEP-ABC",
        "COMMIT",
    ]


def test_removal_of_nothing_is_nothing() -> None:
    assert not firewall.removal("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n")


def test_only_a_table_without_rules_counts_as_empty() -> None:
    empty = (
        "table ip nat {\n\tchain A {\n\t\ttype nat hook input priority 0; policy accept;\n\t}\n}\n"
    )
    assert firewall.is_empty(empty)
    assert not firewall.is_empty(empty.replace("accept;\n", "accept;\n\t\tcounter accept\n"))
