"""The five clients with a cluster on Kubernetes over TLS, and what they refuse and are refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from ssl import TLSVersion

import pytest
import yaml

from e2e.clients.over_tls.client import OverTls, Tls
from e2e.clients.over_tls.clients import OVER_TLS
from e2e.clients.over_tls.files import TlsFiles
from e2e.clients.over_tls.refusals import (
    NO_CERTIFICATE,
    OLD_VERSION,
    OTHER_NAME,
    UNTRUSTED,
    check_refused,
)
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.security.secured import HOST, Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

PREFIX, USER = "over-tls-", "over-tls"
VALUES = {
    TLSVersion.TLSv1_2: [b"over TLS 1.2: %d" % number for number in range(100)],
    TLSVersion.TLSv1_3: [b"over TLS 1.3: %d" % number for number in range(100)],
}


def topic_of(client: type[OverTls]) -> str:
    return f"{PREFIX}{client.name}"


@pytest.fixture(scope="module")
def account(
    cluster: BrokerClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Credentials]:
    """A topic for each client, and a User with a certificate."""
    kubectl, topics = cluster.kubectl, [topic_of(one) for one in OVER_TLS]
    rules = [("topic", name, ["Read", "Write", "Describe"]) for name in topics]
    one = user(USER, "tls", *rules, ("group", "none", ["Read"]))  # librdkafka must have a group
    kubectl.apply(
        yaml.safe_dump_all([one, *(topic_manifest(name, 1, replicas=3) for name in topics)])
    )
    try:
        for name in topics:
            cluster.wait_ready("ct", name)
        cluster.wait_ready("users.chiplog.dev", USER)
        yield Credentials(cluster, USER, tmp_path_factory.mktemp(USER))
    finally:
        kubectl("delete", "users.chiplog.dev", USER, "--wait=false")
        kubectl("delete", "ct", *topics, "--wait=false")


@pytest.mark.parametrize("client", [pytest.param(one, id=one.name) for one in OVER_TLS])
def test_a_client_needs_a_version_a_broker_and_a_certificate_that_are_trusted(
    cluster: BrokerClusterUnderTest, account: Credentials, tmp_path: Path, client: type[OverTls]
) -> None:
    topic, files, bootstrap = topic_of(client), account.files(), account.bootstrap("mtls")
    stranger = tmp_path / "stranger.crt"
    stranger.write_bytes(account.entries["ca.crt"])  # the CA of clients, not of brokers
    elsewhere = bootstrap.replace(HOST, "localhost")
    assert elsewhere != bootstrap
    expected: list[bytes] = []
    with client(tmp_path) as one:
        for version, values in VALUES.items():
            how = Tls(bootstrap=bootstrap, files=files, version=version)
            one.produce(how, topic, values)
            expected += values
            assert one.consume(how, topic, len(expected)) == expected
        for how, words in (
            (Tls(bootstrap=bootstrap, files=replace(files, ca=stranger)), UNTRUSTED),
            (Tls(bootstrap=elsewhere, files=files), OTHER_NAME),
            (Tls(bootstrap=bootstrap, files=TlsFiles(ca=files.ca)), NO_CERTIFICATE),
            (Tls(bootstrap=bootstrap, files=files, version=TLSVersion.TLSv1_1), OLD_VERSION),
        ):
            check_refused(one, how, words)
