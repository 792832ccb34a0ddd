"""DescribeUserScramCredentials and AlterUserScramCredentials of a standalone broker."""

import json
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.errors import CannotStart
from chiplog_broker.first_users import first_user
from chiplog_broker.metadata import standalone_users
from chiplog_broker.ports.rng import SystemRng
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.authorization.people import people
from tests.security.logins_kit import (
    ALICE,
    OK,
    SHA_256,
    alter,
    asking,
    by_scram,
    deletion,
    described,
    upsertion,
)

if TYPE_CHECKING:
    from tests.conftest import Kit

UNACCEPTABLE = ErrorCode.unacceptable_credential
TWICE = "A user credential cannot be altered twice in the same request"


def test_credentials_are_stored_described_and_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            assert await described(client) == {}
            stored = [upsertion(client, "ada", "x"), upsertion(client, "bob", "y", SHA_256, 8192)]
            assert await alter(client, store=stored) == {"ada": (OK, None), "bob": (OK, None)}
            await alter(client, store=[upsertion(client, "ada", "x", SHA_256)])
            everybody = {"ada": (OK, [(2, 4096), (1, 4096)]), "bob": (OK, [(1, 8192)])}
            assert await described(client) == everybody
        async with kit.running() as client:
            assert await described(client) == everybody
            await alter(client, delete=[deletion(client, "ada")])
            assert await described(client, "ada", "bob", "bob", "carol") == {
                "ada": (OK, [(1, 4096)]),
                "bob": (ErrorCode.duplicate_resource, []),
                "carol": (ErrorCode.resource_not_found, []),
            }

    kit.run(scenario)


def test_what_kafka_refuses_is_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            answer = await alter(
                client,
                delete=[
                    deletion(client, "gone"),
                    deletion(client, "", 2),
                    deletion(client, "odd", 3),
                ],
                store=[
                    upsertion(client, "few", "x", iterations=4095),
                    upsertion(client, "many", "x", iterations=16385),
                    upsertion(client, "unsalted", "x", salt=b""),
                    upsertion(client, "n" * 1025, "x"),
                    upsertion(client, "long", "x", salted_password=b"x" * 1025),
                    upsertion(client, "é", "x"),
                    upsertion(client, "twice", "x"),
                    upsertion(client, "twice", "y", SHA_256),
                    upsertion(client, "good", "x"),
                ],
            )
            assert {name: code for name, (code, _) in answer.items()} == {
                "gone": ErrorCode.resource_not_found,
                "": UNACCEPTABLE,
                "odd": ErrorCode.unsupported_sasl_mechanism,
                "few": UNACCEPTABLE,
                "many": UNACCEPTABLE,
                "unsalted": UNACCEPTABLE,
                "n" * 1025: UNACCEPTABLE,
                "long": UNACCEPTABLE,
                "é": UNACCEPTABLE,
                "twice": ErrorCode.duplicate_resource,
                "good": OK,
            }
            assert answer["twice"][1] == TWICE
            assert list(await described(client)) == ["good"]
            answer = await alter(
                client,
                delete=[deletion(client, "good")],
                store=[upsertion(client, "good", "z")],
            )
            assert answer == {"good": (ErrorCode.duplicate_resource, TWICE)}

    kit.run(scenario)


def test_a_broken_disk_changes_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            kit.metadata.replace_error = OSError(5, "broken")
            answer = await alter(client, store=[upsertion(client, "ada", "x")])
            assert answer["ada"][0] is ErrorCode.kafka_storage_error
            assert await described(client) == {}

    kit.run(scenario)


def test_credentials_are_limited(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone_users, "MAX_CREDENTIALS", 1)

    async def scenario() -> None:
        async with kit.running() as client:
            pair = [upsertion(client, name, "x") for name in ("ada", "bob")]
            answer = await alter(client, store=pair)
            assert [answer[one][0] for one in ("ada", "bob")] == [OK, ErrorCode.policy_violation]
            assert await alter(client, store=pair[:1]) == {"ada": (OK, None)}

    kit.run(scenario)


def test_a_damaged_file_stops_the_start(kit: "Kit") -> None:
    async def store() -> None:
        async with kit.running() as client:
            await alter(client, store=[upsertion(client, "ada", "x")])

    async def start() -> None:
        with pytest.raises(CannotStart, match=r"users\.json was changed or is damaged"):
            await kit.new_broker().start()

    kit.run(store)
    file = kit.directory / "metadata" / "users.json"
    file.write_bytes(file.read_bytes().replace(b"ada", b"eve"))
    kit.run(start)


@pytest.mark.parametrize(
    "changed",
    [
        {"iterations": 10**12},
        {"iterations": 0},
        {"iterations": float("inf")},
        {"salt": ""},
        {"storedKey": ""},
    ],
)
def test_a_file_whose_credentials_cannot_be_used_stops_the_start(
    kit: "Kit", changed: dict[str, object]
) -> None:
    """A checksum does not show what a hand has written; so many iterations would hold a thread for
    days at each login by PLAIN."""

    async def store() -> None:
        async with kit.running() as client:
            await alter(client, store=[upsertion(client, "ada", "x")])

    async def start() -> None:
        with pytest.raises(CannotStart, match=r"users\.json was changed or is damaged"):
            await kit.new_broker().start()

    kit.run(store)
    file = kit.directory / "metadata" / "users.json"
    content = json.loads(file.read_bytes().splitlines()[0])
    content["credentials"][0] |= changed
    file.write_text(json.dumps(content))
    kit.run(start)


def test_changes_need_permissions_for_the_cluster(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as here:
            types = here.alice.types(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
            request = types.DescribeUserScramCredentialsRequest(users=None)
            answer = await here.alice.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
            assert answer.error_code is ErrorCode.cluster_authorization_failed
            entry = upsertion(here.alice, "alice", "x")
            denied = await alter(here.alice, store=[entry], delete=[deletion(here.alice, "bob")])
            assert {code for code, _ in denied.values()} == {ErrorCode.cluster_authorization_failed}
            assert list(denied) == ["alice", "bob"]
            await here.allow("alter cluster kafka-cluster")
            assert await alter(here.alice, store=[entry]) == {"alice": (OK, None)}
            # ALTER implies DESCRIBE
            assert await described(here.alice) == {"alice": (OK, [(2, 4096)])}

    kit.run(scenario)


def test_a_first_user_is_added_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE) as admin:
            await alter(admin, store=[upsertion(admin, "alice", "changed")])
        async with asking(kit, ALICE):
            client = await kit.client("sasl")
            assert await by_scram(client, "alice", "changed") is OK

    kit.run(scenario)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "PLAIN=[name=alice,password=hidden]",
        "SCRAM-SHA-512=[name=alice]",
        "SCRAM-SHA-512=[password=hidden]",
        "SCRAM-SHA-512=[name=alice,name=bob,password=hidden]",
        "SCRAM-SHA-512=[name=alice,password=hidden,iterations=4095]",
        "SCRAM-SHA-512=[name=alice,password=hidden,iterations=many]",
        "SCRAM-SHA-512=[name=alice,password=hidden,salt=?]",
        "SCRAM-SHA-512=[name=alice,saltedpassword=aGlkZGVu]",
        "SCRAM-SHA-512=[name=alice,password=hidden,colour=red]",
        "SCRAM-SHA-512=[name=alice,password=hiddén]",
    ],
)
def test_a_first_user_that_cannot_be_added_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(CannotStart, match="--add-scram") as raised:
        first_user(text, SystemRng())
    assert "hidd" not in str(raised.value)


def test_first_users_may_have_quotes_and_salted_passwords() -> None:
    text = 'SCRAM-SHA-256=[name=bob,iterations=8192,salt="c2FsdA==",saltedpassword="c2VjcmV0"]'
    found = first_user(text, SystemRng())
    assert (found.mechanism, found.username) == (SHA_256, "bob")
    assert found.credential is not None
    assert (found.credential.salt, found.credential.iterations) == (b"salt", 8192)
