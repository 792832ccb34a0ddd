"""Where the replacement of a CA stands, from its beginning to its end."""

from dataclasses import replace
from datetime import timedelta

from chiplog_core.certificates.authority import PUBLISHED_FOR, Authority, Request
from chiplog_core.certificates.progress import Replacement, progress
from chiplog_core.certificates.reports import Report
from tests.certificates.test_authority import DAY, NOW, authority, certificate, issued

LATER = NOW + PUBLISHED_FOR
BOTH = authority(certificate(), certificate("old", at=NOW - DAY))
TRUST = (
    Report(broker="broker 1", is_so=True),
    Report(broker="broker 2", is_so=True),
    Report(broker="broker 3", is_so=False, why_not="is down"),
)
CLIENTS = Replacement(
    name="clients CA",
    owners="users",
    secret="demo-clients-ca-cert",  # noqa: S106 - a name
    authority=BOTH,
    issued=(issued("old"), issued("old")),
    trust=TRUST,
)
CLUSTER = replace(
    CLIENTS,
    name="cluster CA",
    owners="brokers",
    secret="demo-cluster-ca-cert",  # noqa: S106 - a name
    trust=(),
    are_with_clients=True,
)


def test_nothing_is_said_without_a_replacement() -> None:
    one = authority(certificate())
    assert progress(replace(CLIENTS, authority=one), NOW) == ""
    assert progress(replace(CLIENTS, authority=Authority()), NOW) == ""


def test_the_clients_ca_waits_for_brokers_and_then_for_users() -> None:
    assert progress(CLIENTS, NOW) == (
        "the clients CA has a new key: 2 of 3 brokers trust it; its certificates wait for the "
        "others (broker 3 is down)"
    )
    trusted = replace(CLIENTS, trust=TRUST[:2])
    assert progress(trusted, NOW).endswith("0 of 2 certificates of users are issued from it")
    have = replace(trusted, issued=(issued(), issued()))
    assert progress(have, NOW).endswith(
        "users have until 2026-01-01T00:03:00Z to use their certificates of it"
    )
    assert progress(have, LATER) == (
        "the clients CA has a new key: all users have certificates of it; the old one is trusted "
        "until 2026-02-09T00:00:00Z, or until Secret demo-clients-ca-cert is annotated with "
        "chiplog.dev/remove-old-ca=true"
    )
    asked = replace(have, authority=replace(BOTH, requests=frozenset({Request.REMOVE_OLD})))
    assert progress(asked, LATER).endswith("and the old one is about to be removed")


def test_older_brokers_get_time() -> None:
    older = replace(CLIENTS, trust=(Report(broker="broker 1", is_so=None),))
    assert progress(older, NOW).endswith(
        "brokers of an older version have until 2026-01-01T00:03:00Z to read it from Secret "
        "demo-clients-ca-cert"
    )
    assert "0 of 2 certificates" in progress(older, LATER)


def test_the_cluster_ca_waits_for_clients_and_then_for_brokers() -> None:
    assert progress(CLUSTER, NOW) == (
        "the cluster CA has a new key: clients have until 2026-01-01T00:03:00Z to read it from "
        "Secret demo-cluster-ca-cert"
    )
    shown = replace(
        CLUSTER,
        issued=tuple(replace(issued(at=LATER), is_shown=one.is_so) for one in TRUST),
        shown=TRUST,
    )
    assert progress(shown, LATER).endswith(
        "2 of 3 brokers show their certificates of it (broker 3 is down)"
    )
    ready = replace(
        shown,
        issued=(replace(issued(at=LATER), is_shown=True),),
        shown=TRUST[:1],
    )
    assert "all brokers have certificates of it; the old one" in progress(ready, LATER)


def test_what_is_trusted_after_its_removal() -> None:
    removed = replace(
        CLIENTS, authority=authority(certificate()), trusting_others=("broker 1", "broker 3")
    )
    assert progress(removed, NOW + timedelta(hours=1)) == (
        "certificates of the clients CA that are not in Secret demo-clients-ca-cert any more are "
        "still trusted by broker 1, broker 3"
    )


def test_the_cluster_ca_waits_for_brokers_too() -> None:
    held = replace(CLUSTER, trust=TRUST)
    assert progress(held, LATER) == (
        "the cluster CA has a new key: 2 of 3 brokers trust it; its certificates wait for the "
        "others (broker 3 is down)"
    )
    trusted = replace(CLUSTER, trust=TRUST[:2])
    assert "clients have until 2026-01-01T00:03:00Z" in progress(trusted, NOW)
    assert progress(trusted, LATER).endswith("0 of 2 certificates of brokers are issued from it")
