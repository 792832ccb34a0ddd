"""Users: their Secrets, and what brokers read of them."""

import asyncio
import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from chiplog_core.certificates.authority import PUBLISHED_FOR
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, Manifest
from chiplog_operator.users.credentials import BATCH, READ_AGAIN_S
from chiplog_operator.users.verifiers import Verifier
from tests.shell.conftest import CLUSTER, NAMESPACE, manifest_of

MUTUAL = {
    "name": "tls",
    "type": "internal",
    "port": 9093,
    "tls": True,
    "authentication": {"type": "tls"},
}
SCRAM = {
    "name": "scram",
    "type": "internal",
    "port": 9095,
    "authentication": {"type": "scram-sha-512"},
}
SECURE: dict[str, Any] = {"listeners": [MUTUAL, SCRAM], "authorization": {"type": "simple"}}
READS = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read"]}
CREDENTIALS = "demo-scram-credentials"


@pytest.fixture
def secure(bench: Any) -> Any:
    bench.keeps_users = True
    return bench


async def apply_user(
    bench: Any, name: str, type_: str | None = "scram-sha-512", *acls: Any, **spec: Any
) -> Manifest:
    given: dict[str, Any] = {"clusterRef": {"name": CLUSTER}, **spec}
    if type_ is not None:
        given.setdefault("authentication", {"type": type_})
    given["authorization"] = {"type": "simple", "acls": list(acls)}
    manifest = manifest_of("User", name, given)
    return await bench.api.create(kinds.USERS, manifest, field_manager="kubectl")  # type: ignore[no-any-return]


async def patch_user(bench: Any, name: str, spec: Any) -> None:
    await bench.api.patch(kinds.USERS, NAMESPACE, name, {"spec": spec}, field_manager="kubectl")


async def delete_user(bench: Any, name: str) -> None:
    await bench.api.delete(kinds.USERS, NAMESPACE, name)


async def given_secret(bench: Any, name: str, **texts: str) -> None:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    metadata = {"namespace": NAMESPACE, "name": name}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await bench.api.create(kinds.SECRETS, manifest, field_manager="kubectl")


def entries(bench: Any, name: str) -> dict[str, bytes]:
    data = bench.one(kinds.SECRETS, name).get("data") or {}
    return {one: base64.b64decode(value) for one, value in data.items()}


def listed(bench: Any) -> dict[str, Any]:
    spec = bench.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]
    return {user["name"]: user for user in spec.get("users", [])}


def message(bench: Any, name: str, type_: str = "Ready") -> str:
    conditions = bench.one(kinds.USERS, name)["status"]["conditions"]
    return next((one["message"] for one in conditions if one["type"] == type_), "")


def certificate(bench: Any, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(entries(bench, name)["user.crt"])


def test_a_user_with_a_password_is_known_within_a_second(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await secure.clock.advance(1.0)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)

    secure.run(scenario())
    found = entries(secure, "alice")
    password = found["password"].decode()
    assert set(found) == {"password", "sasl.jaas.config"}
    assert found["sasl.jaas.config"].decode() == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{password}";'
    )
    assert secure.ready(kinds.USERS, "alice") == ("True", "Ready")
    status = secure.one(kinds.USERS, "alice")["status"]
    assert (status["username"], status["secret"]) == ("alice", "alice")
    assert listed(secure)["alice"] == {
        "name": "alice",
        "principal": "User:alice",
        "acls": [{"resourceType": "topic", "name": "orders", "operations": ["Read"]}],
    }
    verifiers = entries(secure, CREDENTIALS)
    assert set(verifiers) == {"alice"}
    assert Verifier.read(verifiers["alice"].decode()).fits(password)
    fields = json.loads(verifiers["alice"])["SCRAM-SHA-512"]
    assert (sorted(fields), fields["iterations"]) == (
        ["iterations", "salt", "serverKey", "storedKey"],
        4096,
    )
    assert password not in json.dumps(secure.one(kinds.ACCESS_LISTS, CLUSTER))
    (owner,) = secure.one(kinds.SECRETS, "alice")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("User", "alice", True)


def test_a_user_with_a_certificate_gets_one_of_the_clients_ca(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "shop", "tls", READS)
            await secure.clock.advance(5.0)

    secure.run(scenario())
    found = entries(secure, "shop")
    assert set(found) == {"ca.crt", "user.crt", "user.key", "user.p12", "user.password"}
    assert found["ca.crt"] == entries(secure, "demo-clients-ca-cert")["ca.crt"]
    issued = certificate(secure, "shop")
    assert issued.subject.rfc4514_string() == "CN=shop"
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(found["ca.crt"]))
    store = pkcs12.load_pkcs12(found["user.p12"], found["user.password"])
    assert store.cert is not None
    assert store.cert.certificate == issued
    assert store.cert.friendly_name == b"shop"
    assert listed(secure)["shop"]["principal"] == "User:CN=shop"
    assert secure.one(kinds.USERS, "shop")["status"]["username"] == "CN=shop"
    assert "credentialsDigest" not in secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]


def test_a_deleted_user_is_gone_from_both_objects(secure: Any) -> None:
    async def scenario() -> tuple[str, str]:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            for name in ("alice", "bob"):
                await apply_user(secure, name, "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            before = secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]["credentialsDigest"]
            await delete_user(secure, "bob")
            await secure.clock.advance(0.5)
            return before, secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]["credentialsDigest"]

    before, after = secure.run(scenario())
    assert set(listed(secure)) == {"alice"}
    assert set(entries(secure, CREDENTIALS)) == {"alice"}
    assert before != after


def test_the_last_user_is_gone_too(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster()
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            assert set(listed(secure)) == {"alice"}
            await delete_user(secure, "alice")
            await secure.clock.advance(1.0)

    secure.run(scenario())
    assert listed(secure) == {}
    assert entries(secure, CREDENTIALS) == {}


def test_many_users_are_written_together(secure: Any) -> None:
    count = BATCH + 20

    async def scenario() -> int:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await secure.clock.advance(1.0)
            secure.api.calls.clear()
            for number in range(count):
                await apply_user(secure, f"user-{number}", "scram-sha-512", READS)
            await secure.clock.advance(3.0)
            shared = [call for call in secure.api.writes() if call.name in (CLUSTER, CREDENTIALS)]
            return len([call for call in shared if call.kind in ("AccessList", "Secret")])

    writes = secure.run(scenario())
    assert len(listed(secure)) == len(entries(secure, CREDENTIALS)) == count
    assert writes <= 4
    assert {secure.ready(kinds.USERS, f"user-{number}")[0] for number in range(count)} == {"True"}


def test_nothing_is_written_while_nothing_changes(secure: Any) -> None:
    async def scenario() -> list[str]:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await apply_user(secure, "shop", "tls", READS)
            await secure.clock.advance(10.0)
            secure.api.calls.clear()
            await secure.clock.advance(3 * READ_AGAIN_S)
            names = ("alice", "shop", CREDENTIALS)
            return [
                f"{call.verb} {call.kind} {call.name}"
                for call in secure.api.writes()
                if call.name in names or call.kind == "AccessList"
            ]

    assert secure.run(scenario()) == []


def test_a_new_operator_keeps_passwords_and_certificates(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await apply_user(secure, "shop", "tls", READS)
            await secure.clock.advance(5.0)
        before = {name: entries(secure, name) for name in ("alice", "shop", CREDENTIALS)}
        secure.api.calls.clear()
        async with secure.running():
            await secure.clock.advance(5.0)
        assert before == {name: entries(secure, name) for name in before}
        assert not [one for one in secure.api.writes() if one.name in before]
        assert not [one for one in secure.api.writes() if one.kind == "AccessList"]

    secure.run(scenario())


def test_a_secret_of_somebody_else_is_never_written(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await given_secret(secure, "alice", password="mine")  # noqa: S106
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await apply_user(secure, "demo-internal", "scram-sha-512", READS)
            await secure.clock.advance(2.0)

    secure.run(scenario())
    assert entries(secure, "alice") == {"password": b"mine"}
    assert set(entries(secure, "demo-internal")) == {"username", "password"}
    for name in ("alice", "demo-internal"):
        assert secure.ready(kinds.USERS, name) == ("False", "ResourceConflict")

    assert "delete the Secret" in message(secure, "alice")
    assert CREDENTIALS not in {one["metadata"]["name"] for one in secure.api.all_of(kinds.SECRETS)}


def test_a_given_password_is_used_and_followed(secure: Any) -> None:
    given = {"valueFrom": {"secretKeyRef": {"name": "vault", "key": "word"}}}
    authentication = {"type": "scram-sha-512", "password": given}

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", authentication=authentication)
            await secure.clock.advance(2.0)
            assert secure.ready(kinds.USERS, "alice") == ("False", "InvalidConfig")
            assert "entry word of Secret vault" in message(secure, "alice")
            await given_secret(secure, "vault", word='first"one')
            await secure.clock.advance(5.0)
            assert secure.ready(kinds.USERS, "alice") == ("True", "Ready")
            assert entries(secure, "alice")["password"] == b'first"one'
            assert b'password="first\\"one";' in entries(secure, "alice")["sasl.jaas.config"]
            data = {"word": base64.b64encode(b"second").decode()}
            await secure.api.patch(
                kinds.SECRETS, NAMESPACE, "vault", {"data": data}, field_manager="vault"
            )
            await secure.clock.advance(READ_AGAIN_S + 31.0)

    secure.run(scenario())
    assert entries(secure, "alice")["password"] == b"second"
    assert Verifier.read(entries(secure, CREDENTIALS)["alice"].decode()).fits("second")


def test_a_name_with_quotes_is_quoted_for_clients(secure: Any) -> None:
    """Otherwise a name could set other options of a client's login."""
    given = {"valueFrom": {"secretKeyRef": {"name": "vault", "key": "word"}}}
    authentication = {"type": "scram-sha-512", "password": given}

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await given_secret(secure, "vault", word="first")
            name = 'Ali"ce\\'
            await apply_user(secure, "alice", username=name, authentication=authentication)
            await secure.clock.advance(2.0)

    secure.run(scenario())
    assert entries(secure, "alice")["sasl.jaas.config"].decode() == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="Ali\\"ce\\\\" password="first";'
    )


def test_a_password_is_not_taken_from_the_operators_own_secrets(secure: Any) -> None:
    given = {"valueFrom": {"secretKeyRef": {"name": "demo-internal", "key": "password"}}}

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await secure.clock.advance(1.0)
            await apply_user(
                secure, "mallory", authentication={"type": "scram-sha-512", "password": given}
            )
            await secure.clock.advance(2.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "mallory") == ("False", "NotAllowed")
    assert "mallory" not in {one["metadata"]["name"] for one in secure.api.all_of(kinds.SECRETS)}


def test_a_user_made_again_gets_another_password(secure: Any) -> None:
    """The Secret of the deleted User may still be there: its password must not come back."""

    async def scenario() -> tuple[bytes, bytes]:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice")
            await secure.clock.advance(1.0)
            before = entries(secure, "alice")["password"]
            await delete_user(secure, "alice")
            await apply_user(secure, "alice")
            await secure.clock.advance(1.0)
            return before, entries(secure, "alice")["password"]

    before, after = secure.run(scenario())
    assert before != after
    assert Verifier.read(entries(secure, CREDENTIALS)["alice"].decode()).fits(after.decode())


def test_a_deleted_secret_comes_back_with_another_password(secure: Any) -> None:
    async def scenario() -> tuple[bytes, bytes]:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice")
            await secure.clock.advance(1.0)
            before = entries(secure, "alice")["password"]
            await secure.api.delete(kinds.SECRETS, NAMESPACE, "alice")
            await secure.clock.advance(READ_AGAIN_S + 31.0)
            return before, entries(secure, "alice")["password"]

    before, after = secure.run(scenario())
    assert before != after
    assert Verifier.read(entries(secure, CREDENTIALS)["alice"].decode()).fits(after.decode())


def test_another_type_replaces_the_entries(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
            await patch_user(secure, "alice", {"authentication": {"type": "tls"}})
            await secure.clock.advance(2.0)
            assert set(entries(secure, CREDENTIALS)) == set()
            assert "password" not in entries(secure, "alice")
            assert listed(secure)["alice"]["principal"] == "User:CN=alice"
            await patch_user(secure, "alice", {"authentication": {"type": "tls-external"}})
            await secure.clock.advance(2.0)

    secure.run(scenario())
    assert "alice" not in {one["metadata"]["name"] for one in secure.api.all_of(kinds.SECRETS)}
    assert "secret" not in secure.one(kinds.USERS, "alice")["status"]
    assert listed(secure)["alice"]["principal"] == "User:CN=alice"


def test_labels_and_annotations_of_the_template(secure: Any) -> None:
    template = {
        "secret": {
            "metadata": {"labels": {"team": "a", labels.CLUSTER: "x"}, "annotations": {"b": "c"}}
        }
    }

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", template=template)
            await secure.clock.advance(2.0)
            metadata = secure.one(kinds.SECRETS, "alice")["metadata"]
            assert metadata["labels"].items() >= {"team": "a", labels.CLUSTER: CLUSTER}.items()
            assert metadata["annotations"]["b"] == "c"
            await patch_user(secure, "alice", {"template": None})
            await secure.clock.advance(2.0)

    secure.run(scenario())
    assert "team" not in secure.one(kinds.SECRETS, "alice")["metadata"]["labels"]


def test_certificates_are_renewed_and_follow_the_ca(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            days = {"validityDays": 40, "renewalDays": 20}
            await secure.apply_cluster(**SECURE, clientsCa=days)
            await apply_user(secure, "shop", "tls", READS)
            await secure.clock.advance(1.0)
            await secure.start_brokers()
            await secure.live(5.0)
            first = certificate(secure, "shop")
            annotation = {labels.FORCE_REPLACE: "true"}
            await secure.api.patch(
                kinds.SECRETS,
                NAMESPACE,
                "demo-clients-ca",
                {"metadata": {"annotations": annotation}},
                field_manager="kubectl",
            )
            await secure.live(125.0)
            assert certificate(secure, "shop") == first, "brokers do not trust the new CA yet"
            assert entries(secure, "shop")["ca.crt"].count(b"BEGIN") == 2
            asked = {"metadata": {"annotations": {labels.REMOVE_OLD_CA: "true"}}}
            await secure.api.patch(
                kinds.SECRETS, NAMESPACE, "demo-clients-ca-cert", asked, field_manager="kubectl"
            )
            await secure.live(30.0)
            assert entries(secure, "demo-clients-ca-cert")["ca.crt"].count(b"BEGIN") == 2, (
                "the user has a certificate of the old CA"
            )
            await secure.live(PUBLISHED_FOR.total_seconds())
            second = certificate(secure, "shop")
            assert second.serial_number != first.serial_number
            await secure.live(PUBLISHED_FOR.total_seconds() + 120.0)
            (ca,) = x509.load_pem_x509_certificates(
                entries(secure, "demo-clients-ca-cert")["ca.crt"]
            )
            second.verify_directly_issued_by(ca)
            secure.clock.jump(timedelta(days=21).total_seconds())
            await secure.live(120.0)
            assert certificate(secure, "shop").serial_number != second.serial_number

    secure.run(scenario())


def test_a_user_without_a_cluster_says_so(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await apply_user(secure, "alice")
            await secure.clock.advance(1.0)
            assert secure.ready(kinds.USERS, "alice") == ("False", "ClusterNotFound")
            await secure.apply_cluster(**SECURE)
            await secure.clock.advance(1.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "alice") == ("True", "Ready")


def test_rules_without_authorization_are_a_warning(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(listeners=[SCRAM])
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "alice") == ("True", "Ready")
    assert "everybody may do everything" in message(secure, "alice", "Warning")


def test_a_paused_cluster_keeps_its_users(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            paused = {"metadata": {"annotations": {labels.PAUSE: "true"}}}
            await secure.api.patch(
                kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, paused, field_manager="kubectl"
            )
            await delete_user(secure, "alice")
            await secure.clock.advance(1.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"alice"}


def test_what_others_change_is_taken_back(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            await secure.api.patch(
                kinds.ACCESS_LISTS,
                NAMESPACE,
                CLUSTER,
                {"spec": {"superUsers": ["User:mallory"]}},
                field_manager="mallory",
            )
            await secure.clock.advance(READ_AGAIN_S + 31.0)

    secure.run(scenario())
    assert "superUsers" not in secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]


def test_permissions_do_not_wait_for_a_secret_that_may_not_be_written(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            secure.api.fault = lambda call: (
                Forbidden("secrets is forbidden")
                if (call.verb, call.name) == ("patch", CREDENTIALS)
                else None
            )
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await secure.clock.advance(1.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"alice", "bob"}
    assert secure.ready(kinds.USERS, "bob") == ("False", "InternalError")
    assert "secrets is forbidden" in message(secure, "bob")


def test_an_added_verifier_is_removed(secure: Any) -> None:
    """Somebody who could write the Secret could let himself in."""

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            text = base64.b64encode(Verifier.of("guessed").text().encode()).decode()
            await secure.api.patch(
                kinds.SECRETS, NAMESPACE, CREDENTIALS, {"data": {"eve": text}}, field_manager="eve"
            )
            await secure.clock.advance(READ_AGAIN_S + 31.0)

    secure.run(scenario())
    assert set(entries(secure, CREDENTIALS)) == {"alice"}


def test_a_conflict_is_followed_by_another_attempt(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(1.0)
            await secure.api.patch(
                kinds.ACCESS_LISTS,
                NAMESPACE,
                CLUSTER,
                {"metadata": {"labels": {"a": "b"}}},
                field_manager="kubectl",
            )
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await secure.clock.advance(4.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"alice", "bob"}
    assert secure.ready(kinds.USERS, "bob") == ("True", "Ready")


def test_nothing_is_written_by_an_operator_that_is_not_active(secure: Any) -> None:
    async def scenario() -> None:
        system = secure.system()
        secure.authority.held = False
        await secure.apply_cluster(**SECURE)
        await apply_user(secure, "alice", "scram-sha-512", READS)
        task = asyncio.create_task(system.run())
        await secure.clock.advance(5.0)
        task.cancel()
        await asyncio.wait({task})

    secure.run(scenario())
    assert not secure.api.all_of(kinds.ACCESS_LISTS)
    assert "alice" not in {one["metadata"]["name"] for one in secure.api.all_of(kinds.SECRETS)}


def test_brokers_find_the_list_by_its_label(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await secure.clock.advance(1.0)
            assert labels.CLUSTER in secure.one(kinds.ACCESS_LISTS, CLUSTER)["metadata"]["labels"]
            gone = {"metadata": {"labels": {labels.CLUSTER: None}}}
            await secure.api.patch(
                kinds.ACCESS_LISTS, NAMESPACE, CLUSTER, gone, field_manager="kubectl"
            )
            await secure.clock.advance(READ_AGAIN_S + 31.0)

    secure.run(scenario())
    metadata = secure.one(kinds.ACCESS_LISTS, CLUSTER)["metadata"]
    assert metadata["labels"][labels.CLUSTER] == CLUSTER
