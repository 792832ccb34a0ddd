"""Certificates and CAs of a running cluster are replaced, and nobody restarts or loses a record."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from chiplog_core.naming import labels
from e2e import measured
from e2e.clients.tls import Load, s_client, serial
from e2e.cluster.kubectl import eventually
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.security.kafka_python_load import KafkaPythonLoad
from e2e.security.pki import CLIENTS_CA, CLUSTER_CA, SERVERS, Pki, refresh
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(1_200)]

TOPICS = ("replaced-one", "replaced-two")
USER = "certified"
SERIAL_LIMIT_S = 150
WAIT_S = 5 * SERIAL_LIMIT_S
PAUSE_S = 0.02
"""Two clients with 50 records a second each: whether one is lost does not depend on the rate."""


def took_s(what: str, becomes: Callable[[], bool], every_s: float = 1.0) -> float:
    return eventually(what, becomes, WAIT_S, every_s=every_s)


@pytest.fixture
def pki(cluster: BrokerClusterUnderTest, tmp_path: Path) -> Pki:
    """With the topics of a load, which are deleted after the test."""
    manifests = [topic_manifest(name, 3, replicas=3) for name in TOPICS]
    cluster.kubectl.apply(yaml.safe_dump_all(manifests))
    for name in TOPICS:
        cluster.wait_ready("ct", name)
    return Pki(cluster, tmp_path, TOPICS[0])


@pytest.fixture(autouse=True)
def leaves_nothing(cluster: BrokerClusterUnderTest) -> Any:
    yield
    cluster.kubectl("delete", "ct", *TOPICS, "--ignore-not-found", "--wait=false")
    cluster.kubectl("delete", "users.chiplog.dev", USER, "--ignore-not-found", "--wait=false")


def test_certificates_and_the_clients_ca_are_replaced_under_load(
    cluster: BrokerClusterUnderTest, pki: Pki
) -> None:
    before, old, addresses = cluster.broker_pods(), pki.admin("old"), pki.addresses()
    assert len(addresses) == 3
    saved = {address: old.save_session(address) for address in addresses[:1]}
    with (
        Load(old.librdkafka, TOPICS[0], pause_s=PAUSE_S) as one,
        KafkaPythonLoad(old.kafka_python, TOPICS[1], pause_s=PAUSE_S) as other,
    ):
        took_s("both read", lambda: min(len(one.read), len(other.read)) > 100)
        serials = {address: serial(address) for address in addresses}
        (ca,) = pki.published(CLIENTS_CA)

        asked_s = time.monotonic()
        pki.annotate(SERVERS, labels.FORCE_RENEW)
        pki.annotate(CLIENTS_CA, labels.FORCE_REPLACE)
        took_s(
            "the new CA is published",
            lambda: bool(pki.clients_ca()) and pki.published(CLIENTS_CA)[0] != ca,
        )
        new = pki.admin("new")
        refresh(cluster)
        took_s(
            "all show a new certificate",
            lambda: all(serial(one) != last for one, last in serials.items()),
        )
        shown_s = time.monotonic() - asked_s
        took_s("brokers trust the new CA", lambda: "certificates wait" not in pki.changing())
        assert new.is_served()
        assert old.is_served()

        pki.annotate(f"{CLIENTS_CA}-cert", labels.REMOVE_OLD_CA)
        took_s("the old CA is removed", lambda: len(pki.published(CLIENTS_CA)) == 1)
        refresh(cluster)
        removed_s = time.monotonic()
        took_s("all refuse the old CA", lambda: not any(map(old.is_served_by, addresses)))
        refused_s = time.monotonic() - removed_s
        took_s("no broker says that it trusts it", lambda: pki.changing() == "")
        for address, session in saved.items():
            assert old.is_refused(address, session)
        assert new.is_served()
        counts = len(one.read), len(other.read)
        took_s(
            "open connections are used",
            lambda: len(one.read) > counts[0] and len(other.read) > counts[1],
        )
    assert cluster.broker_pods() == before, "no process has ended"
    for load in (one, other):
        assert load.errors == []
        assert sorted(load.read) == sorted(load.acknowledged)
    measured.note(
        f"all brokers show a new certificate {shown_s:.0f} s after the annotation (limit "
        f"{SERIAL_LIMIT_S} s); a removed clients CA is refused after {refused_s:.0f} s; "
        f"{len(one.read) + len(other.read)} records, lost connections: {one.disconnects}"
    )
    assert shown_s < 5 * SERIAL_LIMIT_S


@LONG_FORM
def test_a_user_and_the_cluster_ca_follow(
    cluster: BrokerClusterUnderTest, pki: Pki, tmp_path: Path
) -> None:
    """As fast as kubelets and clients read Secrets by themselves."""
    before, addresses = cluster.broker_pods(), pki.addresses()
    rules = ("topic", TOPICS[0], ["Read", "Write", "Describe"]), ("group", "load", ["Read"])
    cluster.kubectl.apply(yaml.safe_dump_all([user(USER, "tls", *rules)]))
    cluster.wait_ready("users.chiplog.dev", USER)
    account = Credentials(cluster, USER, tmp_path / USER)
    # A cluster of this name that was deleted a moment ago may have left a CA to be replaced.
    took_s("no CA is being replaced", lambda: pki.changing() == "")
    (cluster_ca,), (clients_ca,) = pki.published(CLUSTER_CA), pki.published(CLIENTS_CA)
    with Load(account.librdkafka(), TOPICS[0], pause_s=PAUSE_S) as load:
        took_s("it reads", lambda: len(load.read) > 100)
        began_s = time.monotonic()
        for ca in (CLUSTER_CA, CLIENTS_CA):
            pki.annotate(ca, labels.FORCE_REPLACE)
        took_s("both are published", lambda: len(pki.published(CLUSTER_CA)) == 2)
        took_s("both are published", lambda: len(pki.published(CLIENTS_CA)) == 2)
        for ca in (CLUSTER_CA, CLIENTS_CA):
            pki.annotate(f"{ca}-cert", labels.REMOVE_OLD_CA)

        def has_new() -> bool:
            certificate = x509.load_pem_x509_certificate(pki.entries(USER)["user.crt"])
            return certificate.issuer == pki.published(CLIENTS_CA)[0].subject

        took_s("the user has a certificate of the new CA", has_new)
        took_s("the old clients CA is removed", lambda: clients_ca not in pki.published(CLIENTS_CA))
        took_s("the old cluster CA is removed", lambda: cluster_ca not in pki.published(CLUSTER_CA))
        replaced_s = time.monotonic() - began_s
        took_s("nothing is left to be done", lambda: pki.changing() == "")
        admin = pki.admin("later")
        assert admin.is_served()
        trusts = ("-verify_return_error", "-CAfile")
        for address in addresses:
            assert "verify error" not in s_client(address, *admin.openssl, *trusts, admin.ca)
            assert "verify error" in s_client(address, *admin.openssl, *trusts, account.ca)
    assert cluster.broker_pods() == before, "no process has ended"
    assert load.errors == []
    assert sorted(load.read) == sorted(load.acknowledged)
    measured.note(f"both CAs of a cluster with a User are replaced within {replaced_s:.0f} s")
