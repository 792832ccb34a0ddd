"""Users whose objects somebody else wrote to: one bad object must not keep the others from being
reconciled, and above all not from losing permissions."""

import asyncio
import base64
import json
from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import Forbidden
from chiplog_operator.users.credentials import BATCH
from chiplog_operator.users.verifiers import Verifier
from tests.shell.conftest import CLUSTER, NAMESPACE
from tests.shell.test_users import (
    CREDENTIALS,
    READS,
    SECURE,
    apply_user,
    delete_user,
    entries,
    given_secret,
    listed,
    message,
    patch_user,
)


@pytest.fixture
def secure(bench: Any) -> Any:
    bench.keeps_users = True
    return bench


def test_an_entry_that_is_no_text_does_not_stop_the_others(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
            data = {"data": {"x": base64.b64encode(b"\xff\xfe").decode()}}
            await secure.api.patch(
                kinds.SECRETS, NAMESPACE, CREDENTIALS, data, field_manager="mallory"
            )
            await secure.clock.advance(100.0)
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await delete_user(secure, "alice")
            await secure.clock.advance(5.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"bob"}
    assert set(entries(secure, CREDENTIALS)) == {"bob"}


@pytest.mark.parametrize("iterations", ["1e999", "[" * 50_000])
def test_a_broken_verifier_is_replaced_by_a_new_operator(secure: Any, iterations: str) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
        text = json.loads(entries(secure, CREDENTIALS)["alice"])
        text["SCRAM-SHA-512"]["iterations"] = "N"
        broken = json.dumps(text).replace('"N"', iterations)
        data = {"data": {"alice": base64.b64encode(broken.encode()).decode()}}
        await secure.api.patch(kinds.SECRETS, NAMESPACE, CREDENTIALS, data, field_manager="mallory")
        async with secure.running():
            await secure.clock.advance(5.0)

    secure.run(scenario())
    password = entries(secure, "alice")["password"].decode()
    assert Verifier.read(entries(secure, CREDENTIALS)["alice"].decode()).fits(password)


def test_permissions_do_not_wait_for_a_secret_that_is_somebody_elses(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await given_secret(secure, CREDENTIALS, mallory="x")
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", None, READS)
            await apply_user(secure, "bob", "tls", READS)
            await secure.clock.advance(3.0)
            assert set(listed(secure)) == {"alice", "bob"}
            await delete_user(secure, "alice")
            await secure.clock.advance(3.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"bob"}
    assert CREDENTIALS in message(secure, "bob")
    assert set(entries(secure, CREDENTIALS)) == {"mallory"}
    assert "credentialsDigest" not in secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]


def test_permissions_do_not_wait_for_a_secret_that_may_not_be_read(secure: Any) -> None:
    async def scenario() -> tuple[Any, Any]:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await secure.clock.advance(3.0)
            before = secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]["credentialsDigest"]
            secure.api.fault = lambda call: (
                Forbidden("secrets is forbidden")
                if (call.verb, call.name) == ("get", CREDENTIALS)
                else None
            )
            await secure.clock.advance(100.0)
            await delete_user(secure, "alice")
            await secure.clock.advance(3.0)
            return before, secure.one(kinds.ACCESS_LISTS, CLUSTER)["spec"]["credentialsDigest"]

    before, after = secure.run(scenario())
    assert set(listed(secure)) == {"bob"}
    assert before == after, "bob's password works on"


def test_an_unexpected_error_of_one_user_does_not_stop_the_others(
    secure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Verifier.of

    def failing(password: str, *rest: Any) -> Verifier:
        if password == "planted":  # noqa: S105 - made up
            raise OverflowError(password)
        return of(password, *rest)

    monkeypatch.setattr(Verifier, "of", failing)

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await given_secret(secure, "given", password="planted")  # noqa: S106 - made up
            source = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "password"}}}
            spec = {"authentication": {"type": "scram-sha-512", "password": source}}
            await apply_user(secure, "alice", None, READS, **spec)
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await secure.clock.advance(3.0)

    secure.run(scenario())
    assert set(entries(secure, CREDENTIALS)) == {"bob"}
    assert secure.ready(kinds.USERS, "alice") == ("False", "InternalError")
    assert "planted" not in message(secure, "alice")


def test_a_user_made_again_does_not_keep_the_old_verifier(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
        await delete_user(secure, "alice")
        source = {"valueFrom": {"secretKeyRef": {"name": "missing", "key": "password"}}}
        spec = {"authentication": {"type": "scram-sha-512", "password": source}}
        await apply_user(secure, "alice", None, READS, **spec)
        async with secure.running():
            await secure.clock.advance(5.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "alice") == ("False", "InvalidConfig")
    assert "alice" not in entries(secure, CREDENTIALS)


def test_a_password_is_not_taken_from_a_ca_that_users_gave(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await given_secret(secure, "demo-cluster-ca", other="hunter2")
            await secure.apply_cluster(
                listeners=[{**SECURE["listeners"][1]}], authorization={"type": "simple"}
            )
            source = {"valueFrom": {"secretKeyRef": {"name": "demo-cluster-ca", "key": "other"}}}
            spec = {"authentication": {"type": "scram-sha-512", "password": source}}
            await apply_user(secure, "alice", None, READS, **spec)
            await secure.clock.advance(3.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "alice") == ("False", "NotAllowed")


def test_many_users_that_wait_do_not_keep_others_from_being_read_again(secure: Any) -> None:
    source = {"valueFrom": {"secretKeyRef": {"name": "missing", "key": "password"}}}
    spec = {"authentication": {"type": "scram-sha-512", "password": source}}

    async def scenario() -> int:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
            for number in range(BATCH + 50):
                await apply_user(secure, f"waits-{number}", None, **spec)
            await secure.clock.advance(5.0)
            await secure.api.delete(kinds.SECRETS, NAMESPACE, "alice")
            reads = 0

            def count(call: Any) -> None:
                nonlocal reads
                reads += (call.verb, call.name) == ("get", "waits-7")

            secure.api.fault = count
            await secure.clock.advance(100.0)
            return reads

    reads = secure.run(scenario())
    assert "password" in entries(secure, "alice")
    assert 5 < reads <= 100, "tried again, but not in every pass"


def test_the_token_of_an_account_is_no_password(secure: Any) -> None:
    """It would be copied to where others may read it."""
    source = {"valueFrom": {"secretKeyRef": {"name": "robot", "key": "token"}}}
    spec = {"authentication": {"type": "scram-sha-512", "password": source}}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": NAMESPACE, "name": "robot"},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": base64.b64encode(b"made.up").decode()},
    }

    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await secure.api.create(kinds.SECRETS, token, field_manager="kubectl")
            await apply_user(secure, "mallory", None, READS, **spec)
            await secure.clock.advance(3.0)

    secure.run(scenario())
    assert secure.ready(kinds.USERS, "mallory") == ("False", "NotAllowed")
    assert "mallory" not in {one["metadata"]["name"] for one in secure.api.all_of(kinds.SECRETS)}


def test_a_deleted_user_loses_its_rights_although_the_cluster_cannot_be_parsed(
    secure: Any,
) -> None:
    async def scenario() -> None:
        async with secure.running():
            await secure.apply_cluster(**SECURE)
            await apply_user(secure, "alice", "scram-sha-512", READS)
            await apply_user(secure, "bob", "scram-sha-512", READS)
            await secure.clock.advance(2.0)
            broken = {"spec": {"authorization": 3}}
            await secure.api.patch(
                kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, broken, field_manager="kubectl"
            )
            await delete_user(secure, "alice")
            await secure.clock.advance(3.0)

    secure.run(scenario())
    assert set(listed(secure)) == {"bob"}
    assert set(entries(secure, CREDENTIALS)) == {"bob"}


@pytest.mark.parametrize("type_", ["scram-sha-512", None])
def test_who_loses_the_lease_while_reading_a_secret_does_not_write_it(
    secure: Any, type_: str | None
) -> None:
    """The next operator may have written another password, or a Secret that is needed again."""

    async def scenario() -> list[Any]:
        writes = []

        def lose(call: Any) -> None:
            if call.name == "alice" and call.kind == kinds.SECRETS.kind:
                if call.verb == "get":
                    secure.authority.held = False
                else:
                    writes.append(call)

        await secure.apply_cluster(**SECURE)
        await apply_user(secure, "alice", "scram-sha-512", READS)
        async with secure.running():
            await secure.clock.advance(3.0)
        system = secure.system()
        task = asyncio.create_task(system.run())
        await secure.clock.advance(3.0)
        secure.api.fault = lose
        if type_ is None:
            await patch_user(secure, "alice", {"authentication": None})
        else:
            template = {"secret": {"metadata": {"labels": {"a": "b"}}}}
            await patch_user(secure, "alice", {"template": template})
        await secure.clock.advance(3.0)
        task.cancel()
        await asyncio.wait({task})
        assert not secure.authority.held, "the Secret was read"
        return writes

    assert secure.run(scenario()) == []
