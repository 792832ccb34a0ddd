"""Users that clients of Kafka's protocol change: from a broker's request to what brokers read."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.admin.bodies import to_body
from chiplog_core.admin.operations import AlterAcls, AlterQuotas, AlterScram, OfUser
from chiplog_core.admin.ownership import LAST_APPLIED
from chiplog_core.admin.request_keys import credential_place, request_key
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.client_quotas.entities import Quota
from chiplog_core.ids import Incarnation
from chiplog_core.model.acl_rules import entries_of
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Unavailable
from chiplog_operator.users.verifiers import Verifier
from chiplog_wire.sealing import seal
from tests.shell.conftest import CLUSTER, NAMESPACE
from tests.shell.memory_api import Call
from tests.shell.test_users import (
    CREDENTIALS,
    READS,
    SECURE,
    apply_user,
    delete_user,
    entries,
    listed,
    message,
    patch_user,
)

PASSWORD = "a password of a client"  # noqa: S105 - of a test
ALICE = "User:alice"
READ = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    ALICE,
    "*",
    Operation.READ,
    Permission.ALLOW,
)


class Clients:
    """Requests of clients to broker 1."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.count = 0

    async def start(self) -> None:
        await self.bench.apply_cluster(**SECURE)
        await self.bench.clock.advance(1)
        await self.bench.start_brokers()
        await self.bench.live(9)

    async def ask(self, *operations: OfUser) -> None:
        """Put these requests into the broker's status."""
        deadline = (self.bench.clock.now() + timedelta(seconds=25)).isoformat()
        requests = []
        for operation in operations:
            self.count += 1
            op, body = to_body(operation)
            requests.append(
                {
                    "id": f"r{self.count}",
                    "principal": "User:admin",
                    "op": op.value,
                    "body": body,
                    "deadline": deadline.replace("+00:00", "Z"),
                }
            )
        await self.bench.brokers[1]._patch_status({"requests": requests})

    async def answers(self, *operations: OfUser) -> Sequence[tuple[int, str]]:
        """Ask, and the codes and messages of the answers a moment later."""
        await self.ask(*operations)
        await self.bench.clock.advance(2.0)
        spec = self.bench.one(kinds.BROKERS, f"{CLUSTER}-1")["spec"]
        return [
            (one.get("errorCode", 0), one.get("errorMessage", ""))
            for one in spec.get("answers", [])
        ]

    def sealed(self, name: str, password: str, secret: str = "", verifier: str = "") -> str:
        """As a broker does it for the next request."""
        if not secret:
            internal = self.bench.one(kinds.SECRETS, f"{CLUSTER}-internal")
            secret = b64decode(internal["data"]["password"]).decode()
        incarnation = Incarnation(self.bench.brokers[1].incarnation)
        key = request_key(incarnation, f"r{self.count + 1}")
        place = credential_place(NAMESPACE, CLUSTER, key, name)
        return seal(secret, place, verifier or Verifier.of(password).text(), bytes(12))

    async def set_password(self, name: str, password: str) -> Sequence[tuple[int, str]]:
        return await self.answers(AlterScram(username=name, sealed=self.sealed(name, password)))


def acls(*changed: Acl, delete: bool = False) -> AlterAcls:
    return AlterAcls(name=changed[0].principal, acls=entries_of(changed), is_deletion=delete)


@pytest.fixture
def clients(bench: Any) -> Clients:
    bench.keeps_users = True
    return Clients(bench)


OK = [(0, "")]


def test_an_acl_of_a_client_stands_in_the_user_and_in_what_brokers_read(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            assert await clients.answers(acls(READ)) == OK

    bench.run(scenario())
    user = bench.one(kinds.USERS, "alice")
    assert user["metadata"]["labels"][labels.CREATED_BY] == labels.KAFKA_CLIENT
    assert listed(bench)["alice"]["acls"] == [
        {"resourceType": "topic", "name": "orders", "operations": ["Read"]}
    ]
    assert bench.ready(kinds.USERS, "alice") == ("True", "Ready")


def test_an_acl_of_a_user_that_was_applied_is_removed_by_a_client(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            assert await clients.answers(acls(READ)) == OK
            assert await clients.answers(acls(READ, delete=True)) == OK

    bench.run(scenario())
    assert not bench.api.all_of(kinds.USERS)
    assert not listed(bench)


def test_rules_of_kubectl_are_kubectls(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            applied = await apply_user(bench, "alice", "scram-sha-512", READS)
            annotations = {LAST_APPLIED: json.dumps({"spec": applied["spec"]})}
            patch = {"metadata": {"annotations": annotations}}
            await bench.api.patch(kinds.USERS, NAMESPACE, "alice", patch, field_manager="kubectl")
            ((code, text),) = await clients.answers(acls(READ, delete=True))
            assert code == 44
            assert "is managed by kubectl" in text

    bench.run(scenario())
    assert listed(bench)["alice"]["acls"]


def test_a_quota_of_a_client_is_what_brokers_get_until_it_is_removed(clients: Clients) -> None:
    bench = clients.bench
    seen = []

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            for value in (1_048_576.0, 5.0, None):
                change = AlterQuotas(username="alice", values={Quota.PRODUCER_BYTE_RATE: value})
                assert await clients.answers(change) == OK
                seen.append(listed(bench).get("alice", {}).get("quotas"))

    bench.run(scenario())
    assert seen == [{"producerByteRate": 1_048_576}, {"producerByteRate": 5}, None]
    assert not bench.api.all_of(kinds.USERS)


def test_a_password_of_a_client_is_what_brokers_get(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            assert await clients.set_password("alice", PASSWORD) == OK

    bench.run(scenario())
    found = entries(bench, CREDENTIALS)["alice"].decode()
    assert Verifier.read(found).fits(PASSWORD)
    own = entries(bench, "alice")
    assert [Verifier.read(one.decode()).fits(PASSWORD) for one in own.values()] == [True]
    authentication = bench.one(kinds.USERS, "alice")["spec"]["authentication"]
    assert authentication == {"type": "scram-sha-512", "verifierKey": next(iter(own))}
    assert bench.ready(kinds.USERS, "alice") == ("True", "Ready")
    (owner,) = bench.one(kinds.SECRETS, "alice")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("User", "alice")


def test_a_client_replaces_the_operators_password_and_takes_it_away(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await apply_user(bench, "alice", "scram-sha-512", READS)
            await bench.clock.advance(2)
            generated = entries(bench, "alice")["password"].decode()
            for password in (PASSWORD, "another one"):
                assert await clients.set_password("alice", password) == OK
                found = Verifier.read(entries(bench, CREDENTIALS)["alice"].decode())
                assert found.fits(password)
                assert not found.fits(generated)
                assert "password" not in entries(bench, "alice")
            assert len(entries(bench, "alice")) <= 2
            # Without the field the operator chooses again.
            await patch_user(bench, "alice", {"authentication": {"verifierKey": None}})
            await bench.clock.advance(2)
            fresh = entries(bench, "alice")["password"].decode()
            assert fresh not in (generated, PASSWORD)
            assert Verifier.read(entries(bench, CREDENTIALS)["alice"].decode()).fits(fresh)

    bench.run(scenario())


def test_a_password_that_a_client_deletes_is_gone(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await clients.set_password("alice", PASSWORD)
            await clients.answers(acls(READ))
            assert await clients.answers(AlterScram(username="alice")) == OK
            assert "alice" not in entries(bench, CREDENTIALS)
            assert listed(bench)["alice"]["acls"]
            assert [one["metadata"]["name"] for one in bench.api.all_of(kinds.USERS)] == ["alice"]
            # At once a new one: the Secret of the last one must not be mistaken for it.
            assert await clients.set_password("alice", "second") == OK
            assert Verifier.read(entries(bench, CREDENTIALS)["alice"].decode()).fits("second")
            await clients.answers(acls(READ, delete=True))
            assert await clients.answers(AlterScram(username="alice")) == OK
            assert not bench.api.all_of(kinds.USERS)

    bench.run(scenario())


def test_requests_for_one_user_at_once_lose_nothing(clients: Clients) -> None:
    bench = clients.bench
    many = [READ._replace(name=f"topic-{number}") for number in range(10)]

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await clients.ask(*map(acls, many))
            await bench.clock.advance(5.0)

    bench.run(scenario())
    assert {one["name"] for one in listed(bench)["alice"]["acls"]} == {one.name for one in many}


@pytest.mark.parametrize("what", ["secret", "user", "text"])
def test_what_was_not_sealed_for_this_is_refused(clients: Clients, what: str) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            sealed = {
                "secret": lambda: clients.sealed("alice", PASSWORD, secret="guessed"),  # noqa: S106
                "user": lambda: clients.sealed("bob", PASSWORD),
                "text": lambda: clients.sealed("alice", PASSWORD, verifier="{}"),
            }[what]()
            ((code, text),) = await clients.answers(AlterScram(username="alice", sealed=sealed))
            assert code == 44
            assert "credential" in text

    bench.run(scenario())
    assert not bench.api.all_of(kinds.USERS)


@pytest.mark.parametrize("has_user", [False, True])
def test_a_foreign_secret_with_the_name_is_left_as_it_is(clients: Clients, has_user: bool) -> None:
    bench = clients.bench
    foreign = {"metadata": {"namespace": NAMESPACE, "name": "alice"}, "data": {"a": "YQ=="}}

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            if has_user:
                await apply_user(bench, "alice", None, READS)
            manifest = {"apiVersion": "v1", "kind": "Secret", **foreign}
            await bench.api.create(kinds.SECRETS, manifest, field_manager="kubectl")
            ((code, text),) = await clients.set_password("alice", PASSWORD)
            assert code == 44
            assert "Secret alice is not this User's" in text

    bench.run(scenario())
    assert entries(bench, "alice") == {"a": b"a"}
    assert not [one for one in bench.api.all_of(kinds.USERS) if "authentication" in one["spec"]]


@pytest.mark.parametrize(
    ("cluster", "kind"), [("other", "BrokerCluster"), (CLUSTER, "SparkApplication")]
)
def test_another_secret_of_the_operator_leaves_no_user_behind(
    clients: Clients, cluster: str, kind: str
) -> None:
    bench = clients.bench
    of_other = {labels.MANAGED_BY: labels.OPERATOR, labels.CLUSTER: cluster}
    owner = {"apiVersion": "v1", "kind": kind, "name": "x", "uid": "u", "controller": True}
    meta: dict[str, Any] = {"namespace": NAMESPACE, "name": "other-clients-ca"}
    meta |= {"labels": of_other, "ownerReferences": [owner]}

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {}}
            await bench.api.create(kinds.SECRETS, manifest, field_manager="kubectl")
            ((code, text),) = await clients.set_password("other-clients-ca", PASSWORD)
            assert code == 44
            assert "Secret other-clients-ca is not this User's" in text

    bench.run(scenario())
    assert not bench.api.all_of(kinds.USERS)


@pytest.mark.parametrize("entry", ["salt", "storedKey"])
def test_a_verifier_that_would_fill_the_secret_of_all_is_refused(
    clients: Clients, entry: str
) -> None:
    bench = clients.bench
    verifier = json.loads(Verifier.of(PASSWORD).text())
    verifier["SCRAM-SHA-512"][entry] = b64encode(bytes(1000)).decode()

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            sealed = clients.sealed("alice", PASSWORD, verifier=json.dumps(verifier))
            ((code, text),) = await clients.answers(AlterScram(username="alice", sealed=sealed))
            assert (code, text) == (44, "the credential cannot be read")

    bench.run(scenario())
    assert not bench.api.all_of(kinds.USERS)


@pytest.mark.parametrize("verb", ["create", "apply", "patch"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["not done", "answer lost"])
def test_a_write_that_fails_is_made_again(clients: Clients, verb: str, is_lost: bool) -> None:
    """Also if it was done and only its answer was lost."""
    bench = clients.bench
    failed: list[Call] = []

    def once(call: Call) -> ApiError | None:
        if call.verb == verb and call.kind in ("User", "Secret") and not failed:
            failed.append(call)
            return Unavailable("gone")
        return None

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await clients.set_password("alice", PASSWORD)
            if is_lost:
                bench.api.fault_after = once
            else:
                bench.api.fault = once
            assert await clients.set_password("alice", "second") == OK
            assert await clients.set_password("bob", "third") == OK
            await bench.clock.advance(3.0)

    bench.run(scenario())
    found = {name: Verifier.read(one.decode()) for name, one in entries(bench, CREDENTIALS).items()}
    assert found["alice"].fits("second")
    assert found["bob"].fits("third")


def test_a_missing_entry_is_explained_and_lets_nobody_in(clients: Clients) -> None:
    bench = clients.bench

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await clients.set_password("alice", PASSWORD)
            key = "scram-sha-512.none"
            await patch_user(bench, "alice", {"authentication": {"verifierKey": key}})
            await bench.clock.advance(3.0)
            assert "names entry scram-sha-512.none of Secret alice" in message(bench, "alice")
            await delete_user(bench, "alice")
            await bench.clock.advance(3.0)
            assert "alice" not in entries(bench, CREDENTIALS)

    bench.run(scenario())


def test_nothing_of_a_password_is_shown(clients: Clients, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in an object besides Secrets, nor in a line of the log."""
    bench = clients.bench
    caplog.set_level("DEBUG")

    async def scenario() -> None:
        async with bench.running():
            await clients.start()
            await clients.set_password("alice", PASSWORD)

    bench.run(scenario())
    verifier = Verifier.read(entries(bench, CREDENTIALS)["alice"].decode())
    (keys,) = verifier.credential.keys
    secret = [PASSWORD]
    for key in (keys.stored_key, keys.server_key):
        secret += [b64encode(key).decode(), key.hex()]
    shown = [
        json.dumps(one)
        for kind in (kinds.USERS, kinds.BROKERS, kinds.ACCESS_LISTS, kinds.BROKER_CLUSTERS)
        for one in bench.api.all_of(kind)
    ]
    shown += [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    for text in secret:
        assert not [one for one in shown if text in one]
