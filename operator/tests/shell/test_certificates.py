"""Clusters with TLS: Secrets that are made, renewed and replaced, and never those of others."""

import base64
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

from chiplog_core.certificates.authority import PUBLISHED_FOR
from chiplog_core.ids import BrokerId, Incarnation, Session
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME
from chiplog_core.model.listener_certificate import ListenerCertificate
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels, names
from chiplog_core.naming.peers import is_broker, is_operator
from chiplog_core.observed.processes import Identity
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Manifest, Unavailable
from chiplog_operator.apply import Applied
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.facts import pem_of
from chiplog_operator.certificates.issuing import (
    Owner,
    Usage,
    Validity,
    new_key,
    read_key,
    sign_authority,
    sign_leaf,
)
from chiplog_operator.certificates.keeper import READ_AGAIN_S
from chiplog_operator.certificates.own import OwnCertificates
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import NoAnswer
from tests.shell import test_apply
from tests.shell.test_apply import IDS

DAY_S = 86_400.0
QUIET = Applied(requeue_after_s=READ_AGAIN_S)
"""Nothing is wrong, and Secrets are read again."""
TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
MUTUAL = {**TLS, "authentication": {"type": "tls"}}
NAMES = {
    "demo-broker-certs",
    "demo-cluster-ca",
    "demo-cluster-ca-cert",
    "demo-clients-ca",
    "demo-clients-ca-cert",
    "demo-internal",
}


def older(number: BrokerId) -> Broker:
    """A broker of a version that does not report its certificates."""
    process = Incarnation(f"{number:032x}")
    spec = BrokerSpec(
        cluster="demo",
        cluster_id="abc",
        broker_id=number,
        intent=BrokerIntent.SERVE,
        admitted_incarnation=process,
        session=Session(1),
    )
    status = BrokerStatus(incarnation=process, session=Session(1))
    metadata = Metadata(name=f"demo-{number}", namespace="shop")
    return Broker(metadata=metadata, spec=spec, status=status)


class Shell(test_apply.Shell):
    """With brokers of an older version, unless a test gives others."""

    async def apply(self, cluster: BrokerCluster, ids: Any = IDS, brokers: Any = None) -> Applied:
        return await super().apply(cluster, ids, brokers or {one: older(one) for one in ids})


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


def entries(bench: Any, name: str) -> dict[str, bytes]:
    data = bench.one(kinds.SECRETS, name)["data"]
    return {one: base64.b64decode(value) for one, value in data.items()}


def entry(bench: Any, name: str, of: str) -> str:
    return entries(bench, name)[of].decode()


def certificates(bench: Any, name: str, of: str = "ca.crt") -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(entries(bench, name)[of])


def serial(bench: Any, broker: int = 1) -> int:
    return certificates(bench, "demo-broker-certs", f"{broker}.crt")[0].serial_number


def given(name: str, **texts: str) -> Manifest:
    """A Secret of a user."""
    data = {
        one.replace("_", "."): base64.b64encode(text.encode()).decode()
        for one, text in texts.items()
    }
    metadata = {"namespace": "shop", "name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def authority(bench: Any, key: str) -> str:
    now = bench.clock.now()
    return sign_authority(key, "mine", Validity(not_before=now, not_after=now + timedelta(365)))


async def annotate(bench: Any, name: str, annotation: str) -> None:
    patch = {"metadata": {"annotations": {annotation: "true"}}}
    await bench.api.patch(kinds.SECRETS, "shop", name, patch, field_manager="kubectl-annotate")


async def later(bench: Any, shell: Shell, cluster: BrokerCluster, seconds: float) -> Applied:
    """The state after this time, in which the operator looked often enough."""
    bench.clock.jump(seconds)
    applied = await shell.apply(cluster)
    bench.clock.jump(READ_AGAIN_S)
    await shell.apply(cluster)
    return applied


def revisions(shell: Shell, cluster: BrokerCluster) -> set[str]:
    return set(shell.applier.revisions(cluster, IDS).values())


def test_a_cluster_without_tls_has_no_certificates(bench: Any, shell: Shell) -> None:
    bench.run(shell.apply(bench.run(shell.cluster())))
    assert {one["metadata"]["name"] for one in bench.api.all_of(kinds.SECRETS)} == {"demo-internal"}


def test_a_cluster_with_tls_has_cas_and_a_certificate_for_each_broker(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> list[str]:
        cluster = await shell.cluster(listeners=[MUTUAL])
        assert await shell.apply(cluster) == QUIET
        return await shell.writes_of_a_second_time(cluster)

    assert bench.run(scenario()) == []
    assert {one["metadata"]["name"] for one in bench.api.all_of(kinds.SECRETS)} == NAMES
    for name in NAMES:
        metadata = bench.one(kinds.SECRETS, name)["metadata"]
        assert metadata["labels"].items() >= labels.of_cluster("demo").items()
        assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["BrokerCluster"]
    made = {f"{owner}.{form}" for owner in ("1", "2", "operator") for form in ("crt", "key")}
    assert set(entries(bench, "demo-broker-certs")) == made
    (ca,) = certificates(bench, "demo-cluster-ca-cert")
    (clients_ca,) = certificates(bench, "demo-clients-ca-cert")
    assert ca.subject != clients_ca.subject
    for broker in IDS:
        certificates(bench, "demo-broker-certs", f"{broker}.crt")[0].verify_directly_issued_by(ca)


def test_pods_mount_their_own_certificate_and_the_clients_ca(bench: Any, shell: Shell) -> None:
    bench.run(shell.apply(bench.run(shell.cluster(listeners=[MUTUAL]))))
    for broker in IDS:
        template = bench.one(kinds.STATEFUL_SETS, f"demo-broker-{broker}")["spec"]["template"]
        volumes = {one["name"]: one for one in template["spec"]["volumes"]}
        (container,) = template["spec"]["containers"]
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        certificate = volumes[mounts["/etc/chiplog-tls/tls"]]["secret"]
        assert certificate["secretName"] == "demo-broker-certs"
        assert certificate["items"] == [
            {"key": f"{broker}.crt", "path": "tls.crt"},
            {"key": f"{broker}.key", "path": "tls.key"},
        ]
        clients_ca = volumes[mounts["/etc/chiplog-clients-ca"]]["secret"]
        assert clients_ca["secretName"] == "demo-clients-ca-cert"
        assert clients_ca["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
        sources = volumes[mounts["/etc/chiplog-internal-tls"]]["projected"]["sources"]
        assert [one["secret"] for one in sources] == [
            {"name": "demo-broker-certs", "items": certificate["items"]},
            {"name": "demo-cluster-ca-cert", "items": clients_ca["items"]},
        ]


def usages(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return {one._name for one in found}


def test_the_operator_and_brokers_have_names_by_which_they_know_each_other(
    bench: Any, shell: Shell
) -> None:
    bench.run(shell.apply(bench.run(shell.cluster(listeners=[TLS]))))
    found = {}
    for name in ("1", "2", "operator"):
        (certificate,) = certificates(bench, "demo-broker-certs", f"{name}.crt")
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        found[name] = alternative.value.get_values_for_type(x509.DNSName), usages(certificate)
    assert found["operator"] == (["operator.demo-kafka-brokers.shop.svc"], {"clientAuth"})
    for number in ("1", "2"):
        hosts, usage = found[number]
        assert is_broker(hosts, "demo", "shop")
        assert not is_operator(hosts, "demo", "shop")
        assert usage == {"serverAuth", "clientAuth"}


def test_a_certificate_of_an_older_version_is_issued_again_for_both_ends(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        found = entries(bench, "demo-broker-certs")
        ca = (
            entry(bench, "demo-cluster-ca-cert", "ca.crt"),
            entry(bench, "demo-cluster-ca", "ca.key"),
        )
        now, key = bench.clock.now(), found["1.key"].decode()
        (before,) = certificates(bench, "demo-broker-certs", "1.crt")
        alternative = before.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [
            *alternative.get_values_for_type(x509.DNSName),
            *map(str, alternative.get_values_for_type(x509.IPAddress)),
        ]
        older = sign_leaf(
            ca,
            key,
            Owner.process("demo-broker-1", hosts, Usage.SERVER),
            Validity(not_before=now, not_after=now + timedelta(300)),
        )
        patch = {"data": {"1.crt": base64.b64encode(older.encode()).decode()}}
        await bench.api.patch(
            kinds.SECRETS, "shop", "demo-broker-certs", patch, field_manager="them"
        )
        second = serial(bench, 2)
        await later(bench, shell, cluster, READ_AGAIN_S)
        (after,) = certificates(bench, "demo-broker-certs", "1.crt")
        assert usages(after) == {"serverAuth", "clientAuth"}
        assert serial(bench, 2) == second, "it is for both ends already"

    bench.run(scenario())


def test_a_new_operator_goes_on_with_what_there_is(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[MUTUAL])
        await shell.apply(cluster)
        before = {name: entries(bench, name) for name in NAMES}
        await Shell(bench).apply(cluster)
        assert {name: entries(bench, name) for name in NAMES} == before

    bench.run(scenario())


def test_certificates_are_renewed_and_no_pod_is_restarted(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[MUTUAL])
        await shell.apply(cluster)
        (ca,), first = certificates(bench, "demo-cluster-ca-cert"), serial(bench)
        template = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"]
        (revision,) = revisions(shell, cluster)
        await later(bench, shell, cluster, 334 * DAY_S)
        assert (certificates(bench, "demo-cluster-ca-cert"), serial(bench)) == ([ca], first)
        assert await later(bench, shell, cluster, DAY_S) == QUIET
        (renewed,) = certificates(bench, "demo-cluster-ca-cert")
        assert renewed.not_valid_after_utc > ca.not_valid_after_utc
        assert renewed.public_key() == ca.public_key()
        assert serial(bench) != first
        assert bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"] == template
        assert revisions(shell, cluster) == {revision}

    bench.run(scenario())


def test_a_new_broker_gets_a_certificate_and_others_keep_theirs(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster, IDS[:1])
        first = serial(bench)
        await shell.apply(cluster)
        assert serial(bench) == first
        assert serial(bench, 2) != first

    bench.run(scenario())


def test_the_key_of_the_ca_is_replaced_in_steps(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        (old,), first = certificates(bench, "demo-cluster-ca-cert"), serial(bench)
        await annotate(bench, "demo-cluster-ca", labels.FORCE_REPLACE)
        await later(bench, shell, cluster, READ_AGAIN_S)
        new, also = certificates(bench, "demo-cluster-ca-cert")
        assert (also, serial(bench)) == (old, first)
        assert new.public_key() != old.public_key()
        assert "annotations" in bench.one(kinds.SECRETS, "demo-cluster-ca")["metadata"]
        annotations = bench.one(kinds.SECRETS, "demo-cluster-ca")["metadata"]["annotations"]
        assert labels.FORCE_REPLACE not in annotations
        await later(bench, shell, cluster, PUBLISHED_FOR.total_seconds())
        (leaf,) = certificates(bench, "demo-broker-certs", "1.crt")
        leaf.verify_directly_issued_by(new)
        assert certificates(bench, "demo-cluster-ca-cert") == [new, old]
        await annotate(bench, "demo-cluster-ca-cert", labels.REMOVE_OLD_CA)
        await later(bench, shell, cluster, PUBLISHED_FOR.total_seconds())
        assert certificates(bench, "demo-cluster-ca-cert") == [new]

    bench.run(scenario())


def test_a_renewal_that_is_asked_for_is_made_once(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        (old,) = certificates(bench, "demo-cluster-ca-cert")
        await annotate(bench, "demo-cluster-ca-cert", labels.FORCE_RENEW)
        await later(bench, shell, cluster, READ_AGAIN_S)
        (new,) = certificates(bench, "demo-cluster-ca-cert")
        assert new.serial_number != old.serial_number
        await later(bench, shell, cluster, READ_AGAIN_S)
        another = Shell(bench)
        await another.apply(cluster)
        assert certificates(bench, "demo-cluster-ca-cert") == [new]

    bench.run(scenario())


def test_the_certificates_of_brokers_are_renewed_on_request(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        (ca,) = certificates(bench, "demo-cluster-ca-cert")
        first = [serial(bench, one) for one in IDS]
        key = entry(bench, "demo-broker-certs", "1.key")
        await annotate(bench, "demo-broker-certs", labels.FORCE_RENEW)
        await later(bench, shell, cluster, READ_AGAIN_S)
        second = [serial(bench, one) for one in IDS]
        assert not set(first) & set(second)
        assert entry(bench, "demo-broker-certs", "1.key") != key
        assert certificates(bench, "demo-cluster-ca-cert") == [ca]
        for _ in range(2):
            await later(bench, Shell(bench), cluster, READ_AGAIN_S)
        assert [serial(bench, one) for one in IDS] == second, "once"

    bench.run(scenario())


def test_a_request_for_certificates_waits_until_clients_know_the_new_ca(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        first = serial(bench)
        await annotate(bench, "demo-cluster-ca", labels.FORCE_REPLACE)
        await annotate(bench, "demo-broker-certs", labels.FORCE_RENEW)
        await later(bench, shell, cluster, READ_AGAIN_S)
        assert serial(bench) == first
        await later(bench, shell, cluster, PUBLISHED_FOR.total_seconds())
        new = serial(bench)
        assert new != first
        (leaf,) = certificates(bench, "demo-broker-certs", "1.crt")
        leaf.verify_directly_issued_by(certificates(bench, "demo-cluster-ca-cert")[0])
        for _ in range(2):
            await later(bench, Shell(bench), cluster, READ_AGAIN_S)
        assert serial(bench) == new, "it was carried out"

    bench.run(scenario())


@pytest.mark.parametrize("name", sorted(NAMES - {"demo-internal"}))
def test_a_secret_of_somebody_else_is_left_alone(bench: Any, shell: Shell, name: str) -> None:
    async def scenario() -> None:
        theirs = await bench.api.create(kinds.SECRETS, given(name, a="b"), field_manager="them")
        cluster = await shell.cluster(listeners=[MUTUAL])
        (problem,) = (await shell.apply(cluster)).problems
        assert f"Secret {name} is not this BrokerCluster's" in problem
        await later(bench, shell, cluster, 700)
        assert bench.one(kinds.SECRETS, name) == theirs
        assert bench.api.all_of(kinds.STATEFUL_SETS) == []
        assert revisions(shell, cluster) == set()

    bench.run(scenario())


def test_a_ca_of_the_user_is_used_and_never_written(bench: Any, shell: Shell) -> None:
    key = new_key()

    async def scenario() -> None:
        own = {"generateCertificateAuthority": False}
        cluster = await shell.cluster(listeners=[MUTUAL], clusterCa=own, clientsCa=own)
        pem = authority(bench, key)
        theirs = [
            await bench.api.create(kinds.SECRETS, given(name, **texts), field_manager="them")
            for name, texts in (
                ("demo-cluster-ca-cert", {"ca_crt": pem}),
                ("demo-cluster-ca", {"ca_key": key}),
                ("demo-clients-ca-cert", {"ca_crt": pem}),
            )
        ]
        assert await shell.apply(cluster) == QUIET
        await later(bench, shell, cluster, 700)
        for one in theirs:
            assert bench.one(kinds.SECRETS, one["metadata"]["name"]) == one
        (leaf,) = certificates(bench, "demo-broker-certs", "1.crt")
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(pem.encode()))
        assert shell.applier.certified(cluster_key(cluster)).authorities == (pem,)

    bench.run(scenario())


def cluster_key(cluster: BrokerCluster) -> ClusterKey:
    return ClusterKey(cluster.metadata.namespace, cluster.metadata.name)


UNSUPPORTED_CURVE = """-----BEGIN CERTIFICATE-----
MIIBKDCB9KADAgECAhRCPmbCI2CMgHqCqaHW1XuPkhWS3DAKBggqhkjOPQQDAjAP
MQ0wCwYDVQQDDARtaW5lMCAXDTI2MTEyOTA5MjQwMloYDzIxMjYxMTA1MDkyNDAy
WjAPMQ0wCwYDVQQDDARtaW5lMDIwEAYHKoZIzj0CAQYFK4EEAAYDHgAExzLbnVNA
qcoNH8xcIVdrBbolGJzYdbY9pwLT8aNTMFEwHQYDVR0OBBYEFCDX6hLz0uVlRrLD
lSd+6w0uYKpGMB8GA1UdIwQYMBaAFCDX6hLz0uVlRrLDlSd+6w0uYKpGMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDIwAwIAIOe/cnSATuxwT9Iw5l+qICDn65
wizD614uJnwSae93
-----END CERTIFICATE-----
"""
"""A certificate for a key of the curve secp112r1."""


@pytest.mark.parametrize(
    ("secrets", "problem"),
    [
        ([], "Secret demo-cluster-ca-cert does not exist"),
        ([given("demo-cluster-ca-cert", a="b")], "Secret demo-cluster-ca-cert has no entry ca.crt"),
        (
            [given("demo-cluster-ca-cert", ca_crt="x"), given("demo-cluster-ca", ca_key="x")],
            "cannot be parsed",
        ),
        (
            [
                given("demo-cluster-ca-cert", ca_crt=UNSUPPORTED_CURVE),
                given("demo-cluster-ca", ca_key=new_key()),
            ],
            "cannot be parsed (Curve 1.3.132.0.6 is not supported)",
        ),
    ],
)
def test_a_ca_of_the_user_that_cannot_be_used_starts_no_broker(
    bench: Any, shell: Shell, secrets: list[Manifest], problem: str
) -> None:
    async def scenario() -> None:
        for one in secrets:
            await bench.api.create(kinds.SECRETS, one, field_manager="them")
        own = {"generateCertificateAuthority": False}
        cluster = await shell.cluster(listeners=[TLS], clusterCa=own)
        (found,) = (await shell.apply(cluster)).problems
        assert problem in found
        assert bench.api.all_of(kinds.STATEFUL_SETS) == []
        assert revisions(shell, cluster) == set()

    bench.run(scenario())


def test_a_key_of_another_ca_issues_nothing(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        pem, key = authority(bench, new_key()), new_key()
        for one in (
            given("demo-cluster-ca-cert", ca_crt=pem),
            given("demo-cluster-ca", ca_key=key),
        ):
            await bench.api.create(kinds.SECRETS, one, field_manager="them")
        own = {"generateCertificateAuthority": False}
        cluster = await shell.cluster(listeners=[TLS], clusterCa=own)
        (problem,) = (await shell.apply(cluster)).problems
        assert "has no valid CA certificate for the key in Secret demo-cluster-ca" in problem
        assert bench.api.all_of(kinds.STATEFUL_SETS) == []

    bench.run(scenario())


@pytest.mark.parametrize(
    ("usage", "is_usable"),
    [
        (Usage.SERVER.value, False),
        (Usage.CLIENT.value, False),
        ((ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,), False),
        (Usage.BOTH.value, True),
    ],
)
def test_a_ca_of_the_user_must_be_for_servers_and_clients(
    bench: Any, shell: Shell, usage: tuple[x509.ObjectIdentifier, ...], is_usable: bool
) -> None:
    """OpenSSL refuses a certificate of a CA with another extended key usage: brokers that have
    restarted could not connect to each other."""

    async def scenario() -> None:
        key = new_key()
        signer = read_key(key)
        mine = x509.load_pem_x509_certificate(authority(bench, key).encode())
        builder = x509.CertificateBuilder(
            issuer_name=mine.issuer,
            subject_name=mine.subject,
            public_key=mine.public_key(),
            serial_number=mine.serial_number,
            not_valid_before=mine.not_valid_before_utc,
            not_valid_after=mine.not_valid_after_utc,
            extensions=list(mine.extensions),
        ).add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        pem = pem_of(builder.sign(signer, hashes.SHA256()))
        for one in (
            given("demo-cluster-ca-cert", ca_crt=pem),
            given("demo-cluster-ca", ca_key=key),
        ):
            await bench.api.create(kinds.SECRETS, one, field_manager="them")
        own = {"generateCertificateAuthority": False}
        cluster = await shell.cluster(listeners=[TLS], clusterCa=own)
        problems = (await shell.apply(cluster)).problems
        assert (problems == ()) is is_usable
        assert bool(bench.api.all_of(kinds.STATEFUL_SETS)) is is_usable
        assert all("extended key usage" in one for one in problems)

    bench.run(scenario())


def test_secrets_that_may_not_be_read_are_a_problem(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        before = shell.applier.certified(cluster_key(cluster))
        bench.clock.jump(READ_AGAIN_S)
        bench.api.fault = lambda call: (
            Forbidden("no") if (call.verb, call.name) == ("get", "demo-cluster-ca") else None
        )
        (problem,) = (await shell.apply(cluster)).problems
        assert problem == "Secret demo-cluster-ca cannot be read: no"
        assert revisions(shell, cluster) == set()
        after = shell.applier.certified(cluster_key(cluster))
        assert (after.authorities, after.expiries) == (before.authorities, before.expiries)
        bench.api.fault = lambda _: None
        bench.clock.jump(READ_AGAIN_S)
        assert (await shell.apply(cluster)).problems == ()
        assert len(revisions(shell, cluster)) == 1

    bench.run(scenario())


def test_a_deleted_key_is_made_again_and_what_it_signed_stays_trusted(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        (old,), first = certificates(bench, "demo-cluster-ca-cert"), serial(bench)
        await bench.api.delete(kinds.SECRETS, "shop", "demo-cluster-ca")
        await later(bench, shell, cluster, READ_AGAIN_S)
        _, also = certificates(bench, "demo-cluster-ca-cert")
        assert (also, serial(bench)) == (old, first)

    bench.run(scenario())


def trusted_by_java(bench: Any, name: str) -> list[x509.Certificate]:
    data = bench.one(kinds.SECRETS, name)["data"]
    truststore, password = (base64.b64decode(data[one]) for one in ("ca.p12", "ca.password"))
    found = pkcs12.load_pkcs12(truststore, password)
    return [one.certificate for one in found.additional_certs]


def test_java_finds_the_same_certificates_in_a_truststore(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[MUTUAL])
        await shell.apply(cluster)
        secret = "demo-cluster-ca-cert"  # noqa: S105 - a name
        password = entry(bench, secret, "ca.password")
        for name in (secret, "demo-clients-ca-cert"):
            assert trusted_by_java(bench, name) == certificates(bench, name)
        await annotate(bench, "demo-cluster-ca", labels.FORCE_REPLACE)
        await later(bench, shell, cluster, READ_AGAIN_S)
        assert trusted_by_java(bench, secret) == certificates(bench, secret)
        assert len(trusted_by_java(bench, secret)) == 2
        assert entry(bench, secret, "ca.password") == password
        patch = {"data": {"ca.p12": "AAAA"}}
        await bench.api.patch(kinds.SECRETS, "shop", secret, patch, field_manager="them")
        await later(bench, shell, cluster, READ_AGAIN_S)
        assert trusted_by_java(bench, secret) == certificates(bench, secret)

    bench.run(scenario())


def test_a_broken_certificate_is_issued_again(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        await shell.apply(cluster)
        second = serial(bench, 2)
        other = base64.b64encode(new_key().encode()).decode()
        patch = {"data": {"1.crt": "AAAA", "2.key": other}}
        await bench.api.patch(
            kinds.SECRETS, "shop", "demo-broker-certs", patch, field_manager="them"
        )
        await later(bench, shell, cluster, READ_AGAIN_S)
        assert serial(bench) != serial(bench, 2) != second

    bench.run(scenario())


def test_a_listener_with_its_own_certificate_needs_the_ca_between_brokers_only(
    bench: Any, shell: Shell
) -> None:
    bench.run(bench.api.create(kinds.SECRETS, kafka_tls(bench), field_manager="them"))
    bench.run(shell.apply(bench.run(shell.cluster(listeners=[OWN]))))
    assert {one["metadata"]["name"] for one in bench.api.all_of(kinds.SECRETS)} == {
        *NAMES - {"demo-clients-ca", "demo-clients-ca-cert"},
        "kafka-tls",
    }
    template = bench.one(kinds.STATEFUL_SETS, "demo-broker-2")["spec"]["template"]
    (volume,) = (one for one in template["spec"]["volumes"] if one["name"] == "tls-tls")
    assert volume["secret"]["secretName"] == "kafka-tls"
    assert volume["secret"]["items"] == [
        {"key": "tls.crt", "path": "tls.crt"},
        {"key": "tls.key", "path": "tls.key"},
    ]


GIVEN = {"secretName": "kafka-tls", "certificate": "tls.crt", "key": "tls.key"}
OWN = {**TLS, "configuration": {"brokerCertChainAndKey": GIVEN}}


def kafka_tls(bench: Any, key: str = "") -> Manifest:
    """The Secret that `OWN` names, with another key if it is given."""
    own = new_key()
    return given("kafka-tls", tls_crt=authority(bench, own), tls_key=key or own)


def without(secret: Manifest, entry: str) -> Manifest:
    data = {name: one for name, one in secret["data"].items() if name != entry}
    return {**secret, "data": data}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda _: None, "Secret kafka-tls does not exist: "),
        (lambda bench: without(kafka_tls(bench), "tls.key"), "has no entry tls.key: "),
        (lambda bench: kafka_tls(bench, new_key()), "has a key in tls.key that is not that of"),
    ],
)
def test_no_broker_restarts_for_a_certificate_that_it_could_not_use(
    bench: Any, shell: Shell, broken: Any, problem: str
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[OWN, {**TLS, "name": "issued", "port": 9094}])
        plain = replace(cluster, spec=replace(cluster.spec, listeners=()))
        await shell.apply(plain)
        before = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"]
        if (secret := broken(bench)) is not None:
            await bench.api.create(kinds.SECRETS, secret, field_manager="them")
        (found,) = (await shell.apply(cluster)).problems
        assert problem in found
        assert "of listener tls; no broker restarts before" in found
        assert bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"] == before
        assert revisions(shell, cluster) == set()
        # What the operator issues itself does not wait for that.
        assert len(certificates(bench, "demo-broker-certs", "1.crt")) == 1
        if secret is not None:
            await bench.api.delete(kinds.SECRETS, "shop", "kafka-tls")
        await bench.api.create(kinds.SECRETS, kafka_tls(bench), field_manager="them")
        bench.clock.jump(READ_AGAIN_S)
        assert (await shell.apply(cluster)).problems == ()
        assert bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"] != before

    bench.run(scenario())


@pytest.mark.parametrize("is_forbidden", [True, False])
def test_a_certificate_that_the_operator_cannot_judge_is_used(
    bench: Any, shell: Shell, *, is_forbidden: bool
) -> None:
    """It may be forbidden to read it, or in a form that only brokers know."""

    async def scenario() -> None:
        if is_forbidden:
            bench.api.fault = lambda call: Forbidden("no") if call.name == "kafka-tls" else None
        else:
            odd = given("kafka-tls", tls_crt="odd", tls_key="odd")
            await bench.api.create(kinds.SECRETS, odd, field_manager="them")
        cluster = await shell.cluster(listeners=[OWN])
        assert (await shell.apply(cluster)).problems == ()
        assert len(revisions(shell, cluster)) == 1

    bench.run(scenario())


def test_the_status_has_the_ca_and_the_metrics_its_end(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await bench.apply_cluster(2, listeners=[TLS])
            await bench.clock.advance(5)
        (listener,) = bench.one(kinds.BROKER_CLUSTERS, "demo")["status"]["listeners"]
        assert listener["certificates"] == [entry(bench, "demo-cluster-ca-cert", "ca.crt")]
        text = (await bench.metrics.text()).decode()
        for name in ("cluster-ca", "broker-1", "broker-2"):
            (line,) = (
                one
                for one in text.splitlines()
                if one.startswith("chiplog_operator_certificate_expiry_timestamp_seconds{")
                and f'name="{name}"' in one
            )
            left_s = float(line.split()[-1]) - bench.clock.now().timestamp()
            assert left_s == pytest.approx(365 * DAY_S, abs=60)

    bench.run(scenario())


@pytest.mark.parametrize("seed", range(15))
def test_brokers_are_trusted_wherever_an_operator_ends(bench: Any, seed: int) -> None:
    """Writes fail at random, before or after they happen, and another operator goes on. At every
    moment the published certificates of the CA verify those of the brokers."""
    randomness = random.Random(seed)  # noqa: S311 - to break things

    def fault(call: Any) -> ApiError | None:
        is_write = call.kind == "Secret" and call.verb not in {"get", "list", "watch"}
        is_users = call.field_manager == "kubectl-annotate"
        fails = is_write and not is_users and randomness.random() < 0.4
        return Unavailable("it broke") if fails else None

    async def scenario() -> None:
        cluster = await Shell(bench).cluster(listeners=[TLS])
        await Shell(bench).apply(cluster)
        for _ in range(12):
            shell = Shell(bench)
            secret, annotation = randomness.choice(REQUESTS)
            await annotate(bench, secret, annotation)
            bench.api.fault, bench.api.fault_after = fault, fault
            for _ in range(randomness.randrange(3)):
                bench.clock.jump(randomness.choice([1.0, READ_AGAIN_S, 100.0, 20 * DAY_S]))
                await shell.apply(cluster)
                _check_trust(bench)
            bench.api.fault = bench.api.fault_after = lambda _: None
            for _ in range(2):
                bench.clock.jump(PUBLISHED_FOR.total_seconds())
                await shell.apply(cluster)
                _check_trust(bench)
        now = bench.clock.now()
        for broker in IDS:
            (leaf,) = certificates(bench, "demo-broker-certs", f"{broker}.crt")
            assert now < leaf.not_valid_after_utc

    bench.run(scenario())


REQUESTS = [
    ("demo-cluster-ca-cert", labels.FORCE_RENEW),
    ("demo-cluster-ca", labels.FORCE_REPLACE),
    ("demo-cluster-ca-cert", labels.REMOVE_OLD_CA),
]


def _check_trust(bench: Any) -> None:
    published = certificates(bench, "demo-cluster-ca-cert")
    for broker in IDS:
        (leaf,) = certificates(bench, "demo-broker-certs", f"{broker}.crt")
        issuers = [ca for ca in published if ca.subject == leaf.issuer]
        assert issuers, "a broker shows a certificate that clients do not trust"
        for ca in issuers:
            leaf.verify_directly_issued_by(ca)


def test_no_broker_restarts_for_a_certificate_that_cannot_be_written(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        plain = replace(cluster, spec=replace(cluster.spec, listeners=()))
        await shell.apply(plain)
        before = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"]
        bench.api.fault = lambda call: (
            Forbidden("exceeded quota")
            if (call.verb, call.name) == ("create", "demo-broker-certs")
            else None
        )
        (problem,) = (await shell.apply(cluster)).problems
        assert problem == "Secret demo-broker-certs is refused: exceeded quota"
        assert bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"] == before
        assert revisions(shell, cluster) == set()
        bench.api.fault = lambda _: None
        assert (await shell.apply(cluster)).problems == ()
        assert bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"] != before
        assert len(revisions(shell, cluster)) == 1

    bench.run(scenario())


def test_a_clock_that_was_ahead_for_a_while_keeps_no_client_out(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[MUTUAL])
        await shell.apply(cluster)
        (ca,) = certificates(bench, "demo-cluster-ca-cert")
        days = 400
        await later(bench, shell, cluster, days * DAY_S)
        bench.clock.jump(-days * DAY_S)
        await later(bench, Shell(bench), cluster, 0)
        now = bench.clock.now()
        (also,) = certificates(bench, "demo-cluster-ca-cert")
        assert (also.public_key(), also.subject) == (ca.public_key(), ca.subject)
        (clients_ca,) = certificates(bench, "demo-clients-ca-cert")
        for one in (also, clients_ca, *certificates(bench, "demo-broker-certs", "1.crt")):
            assert one.not_valid_before_utc <= now < one.not_valid_after_utc

    bench.run(scenario())


def test_a_new_operator_asks_brokers_also_if_certificates_are_not_kept(
    bench: Any, shell: Shell
) -> None:
    """While the cluster is paused, for example."""

    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        key = cluster_key(cluster)
        of_new_process = Passwords(bench.api, OwnCertificates())
        whom = Identity(
            broker_id=BrokerId(1), incarnation=Incarnation("0" * 32), pod_uid="u", address="::1"
        )
        secured = replace(whom, uses_tls=True)
        await bench.api.create(
            kinds.SECRETS,
            given(names.internal_secret("demo"), username="chiplog-broker", password="x"),  # noqa: S106
            field_manager="them",
        )
        with pytest.raises(NoAnswer, match="no certificate of the cluster CA: Secret demo-broker"):
            await of_new_process.access(key, secured)
        await bench.api.delete(kinds.SECRETS, "shop", names.internal_secret("demo"))
        await shell.apply(cluster)
        assert (await of_new_process.access(key, whom)).tls is None
        tls = (await of_new_process.access(key, secured)).tls
        assert tls is not None
        found = [int(str(one["serialNumber"]), 16) for one in tls.get_ca_certs()]
        trusted = certificates(bench, "demo-cluster-ca-cert")
        assert found == [one.serial_number for one in trusted]
        assert (await of_new_process.access(key, secured)).tls is tls

    bench.run(scenario())


def test_brokers_are_asked_with_tls_until_they_restart_without(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[TLS])
        key, own = cluster_key(cluster), shell.applier._certificates._own_certificates
        await shell.apply(cluster)
        assert own.of(key) is not None
        without_tls = replace(cluster, spec=replace(cluster.spec, listeners=()))
        one = older(BrokerId(1))
        reported = (ListenerCertificate(listener=INTERNAL_LISTENER_NAME),)
        running = replace(one, status=replace(one.status, listener_certificates=reported))
        await shell.apply(without_tls, brokers={BrokerId(1): running})
        assert own.of(key) is not None
        await shell.apply(without_tls, brokers={BrokerId(1): one})
        assert own.of(key) is None

    bench.run(scenario())
