"""Certificates as TLS takes them: real handshakes on loopback, with Python's ssl and OpenSSL."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from chiplog_core.certificates.authority import Term
from chiplog_core.certificates.servers import hosts_of
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_BROKERS
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec, Endpoint
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming.names import MAX_CLUSTER_NAME_LENGTH
from chiplog_operator.certificates.issuing import (
    Owner,
    Usage,
    Validity,
    new_key,
    read_key,
    sign_authority,
)
from chiplog_operator.certificates.material import CaMaterial, LeafMaterial

TERM = Term(validity=timedelta(days=365), renewal=timedelta(days=30))
HOSTS = frozenset({"demo-kafka-bootstrap.shop.svc", "127.0.0.1", "fd00::1"})
NOBODY = frozenset[Any]()


def made() -> CaMaterial:
    return CaMaterial().advanced("demo cluster-ca", (), TERM, datetime.now(UTC))


def issue(ca: CaMaterial, hosts: frozenset[str] = HOSTS) -> LeafMaterial:
    owner = Owner.process("demo-broker-1", hosts, Usage.BOTH)
    return LeafMaterial.issue(ca, owner, TERM, datetime.now(UTC))


def serving(folder: Path, server: LeafMaterial) -> ssl.SSLContext:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_text(server.certificate)
    key.write_text(server.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def trusting(ca: CaMaterial) -> ssl.SSLContext:
    """A client that is as strict as Python 3.13 by default."""
    context = ssl.create_default_context(cadata="".join(ca.pems))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Connect to the server under this name. Raises `ssl.SSLError`."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with asyncio.timeout(10):
        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client, server_hostname=host
            )
            writer.close()


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_a_client_that_trusts_the_ca_connects_by_every_name(tmp_path: Path, host: str) -> None:
    ca = made()
    asyncio.run(handshake(serving(tmp_path, issue(ca)), trusting(ca), host))


def test_another_name_or_another_ca_is_refused(tmp_path: Path) -> None:
    ca = made()
    server = serving(tmp_path, issue(ca))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        asyncio.run(handshake(server, trusting(ca), "other.shop.svc"))
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        asyncio.run(handshake(server, trusting(made()), "127.0.0.1"))


def test_clients_that_trust_only_the_old_certificate_accept_a_renewed_ca(tmp_path: Path) -> None:
    """For a renewal with the same key, nobody has to read anything again."""
    now = datetime.now(UTC)
    old = CaMaterial().advanced("demo cluster-ca", (), TERM, now - timedelta(days=340))
    renewed = old.advanced("demo cluster-ca", (), TERM, now)
    assert renewed.pems != old.pems
    asyncio.run(handshake(serving(tmp_path, issue(renewed)), trusting(old), "127.0.0.1"))


def test_a_certificate_issues_no_other(tmp_path: Path) -> None:
    """Nobody with the key of a broker's certificate can pose as another host."""
    ca = made()
    broker = issue(ca)
    posing = CaMaterial.read(broker.certificate, broker.key, NOBODY)
    assert posing.facts.current(datetime.now(UTC)) is None


KEYS: dict[str, Callable[[], PrivateKeyTypes]] = {
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("kind", KEYS)
def test_users_bring_cas_with_keys_of_other_kinds(tmp_path: Path, kind: str) -> None:
    key = KEYS[kind]().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    now = datetime.now(UTC)
    validity = Validity(not_before=now - timedelta(hours=1), not_after=now + timedelta(days=9))
    certificate = sign_authority(key.decode(), "mine", validity)
    ca = CaMaterial.read(certificate, key.decode(), NOBODY)
    server = issue(ca)
    assert server.facts.not_after == ca.facts.certificates[0].not_after
    asyncio.run(handshake(serving(tmp_path, server), trusting(ca), "127.0.0.1"))


def test_a_key_that_cannot_be_used_is_an_error() -> None:
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    for key in (encrypted.decode(), "no key"):
        with pytest.raises(ValueError, match=r"key|PEM"):
            read_key(key)


def test_one_secret_holds_the_certificates_of_the_largest_cluster() -> None:
    """With the longest names and the longest addresses."""
    limit = 1024 * 1024  # of Kubernetes, for all values of a Secret together
    name, namespace = "c" * MAX_CLUSTER_NAME_LENGTH, "n" * 63
    listeners = [{"name": "external", "type": "nodeport", "port": 9094, "tls": True}]
    cluster = BrokerCluster.from_manifest(
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 200, "storage": {"size": "1Gi"}, "listeners": listeners},
        }
    )
    brokers = {
        BrokerId(number): Broker(
            metadata=Metadata(name=f"{name}-{number}", namespace=namespace),
            spec=BrokerSpec(
                cluster=name,
                cluster_id="abc",
                broker_id=BrokerId(number),
                intent=BrokerIntent.SERVE,
                endpoints=(Endpoint(listener="external", host=f"fd00:{number:x}::1", port=32_000),),
            ),
        )
        for number in range(1, MAX_BROKERS + 1)
    }
    last = BrokerId(MAX_BROKERS)
    server = issue(made(), hosts_of(cluster, last, brokers))
    assert MAX_BROKERS * (len(server.certificate) + len(server.key)) < 0.9 * limit


def test_keys_are_not_shown() -> None:
    ca = made()
    server = issue(ca)
    for shown in (repr(ca), repr(server)):
        assert "PRIVATE" not in shown
    assert new_key() != new_key()
