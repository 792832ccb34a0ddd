"""DescribeClientQuotas and AlterClientQuotas of a standalone broker, and what a limited client
sees."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata import standalone_quotas
from chiplog_broker.security.quota_store import KnownQuotas
from chiplog_core.client_quotas.entities import Entity, Quota
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_wire.protocol.answers import throttled
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode
from tests.authorization.people import ask_versions, peer, people, rename

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK, INVALID = ErrorCode.none, ErrorCode.invalid_request
PRODUCE, FETCH = Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE
ALICE = (("user", "alice"),)
LARGE = b"x" * 30_000
ZERO = timedelta(0)

Named = Sequence[tuple[str, str | None]]


def entry(client: "Client", entity: Named, **values: float | None) -> Any:
    types = client.types(ApiKey.ALTER_CLIENT_QUOTAS)
    return types.EntryData(
        entity=tuple(
            types.EntityData(entity_type=type_, entity_name=name) for type_, name in entity
        ),
        ops=tuple(
            types.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ),
    )


async def alter(
    client: "Client", *entries: Any, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    types = client.types(ApiKey.ALTER_CLIENT_QUOTAS)
    request = types.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answer = await client.ask(ApiKey.ALTER_CLIENT_QUOTAS, request)
    assert [one.entity and one.entity[0].entity_type for one in answer.entries] == [
        one.entity and one.entity[0].entity_type for one in entries
    ]
    return [(ErrorCode(one.error_code), one.error_message) for one in answer.entries]


async def described(
    client: "Client", *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    """Entity -> its quotas; the error code if there is one."""
    types = client.types(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    request = types.DescribeClientQuotasRequest(
        components=tuple(
            types.ComponentData(entity_type=type_, match_type=how, match=match)
            for type_, how, match in components
        ),
        strict=strict,
    )
    answer = await client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    if answer.error_code is not OK:
        assert answer.entries is None
        return ErrorCode(answer.error_code)
    return {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries
    }


def test_quotas_are_stored_described_and_removed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            assert await described(client) == {}
            both = (("user", None), ("client-id", "app"))
            changes = (
                entry(client, ALICE, producer_byte_rate=1024.0, request_percentage=0.5),
                entry(client, both, consumer_byte_rate=7.0),
            )
            assert await alter(client, *changes, validate_only=True) == [(OK, None)] * 2
            assert await described(client) == {}
            assert await alter(client, *changes) == [(OK, None)] * 2
            everything = {
                ALICE: {"producer_byte_rate": 1024.0, "request_percentage": 0.5},
                both: {"consumer_byte_rate": 7.0},
            }
            assert await described(client) == everything
        async with kit.running() as client:
            assert await described(client) == everything
            assert await described(client, ("user", 0, "alice")) == {ALICE: everything[ALICE]}
            assert await described(client, ("user", 1, None)) == {both: everything[both]}
            assert await described(client, ("user", 2, None), strict=True) == {
                ALICE: everything[ALICE]
            }
            assert await described(client, ("ip", 2, None)) == {}
            await alter(client, entry(client, ALICE, request_percentage=None))
            await alter(client, entry(client, both, consumer_byte_rate=None))
            assert await described(client) == {ALICE: {"producer_byte_rate": 1024.0}}

    kit.run(scenario)


def test_what_kafka_refuses_is_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            refused = [
                entry(client, (), producer_byte_rate=1.0),
                entry(client, (("user", ""),), producer_byte_rate=1.0),
                entry(client, (("ip", "127.0.0.1"),), connection_creation_rate=1.0),
                entry(client, (("group", "x"),), producer_byte_rate=1.0),
                entry(client, (("user", "a"), ("user", "b")), producer_byte_rate=1.0),
                entry(client, (("user", "a"),), connection_creation_rate=1.0),
                entry(client, (("user", "a"),), producer_byte_rate=1.5),
                entry(client, (("user", "a"),), producer_byte_rate=-1.0),
                entry(client, (("user", "a"),), producer_byte_rate=0.0),
                entry(client, (("user", "a"),), request_percentage=float("nan")),
                entry(client, (("user", "a" * 1025),), producer_byte_rate=1.0),
            ]
            twice = entry(client, ALICE, producer_byte_rate=1.0)
            twice = type(twice)(entity=twice.entity, ops=twice.ops * 2)
            good = entry(client, (("user", "b"),), producer_byte_rate=1.0)
            answers = await alter(client, *refused, twice, good, good)
            codes = [code for code, _ in answers]
            assert codes == [*[INVALID] * (len(refused) + 1), OK, INVALID]
            assert all(message for code, message in answers if code is not OK)
            assert await described(client) == {(("user", "b"),): {"producer_byte_rate": 1.0}}
            for components in (
                [("", 0, "x")],
                [("user", 0, "a"), ("user", 0, "b")],
                [("user", 0, None)],
                [("user", 1, "a")],
                [("user", 3, None)],
                [("ip", 2, None), ("user", 2, None)],
            ):
                assert await described(client, *components) is INVALID
            unknown = await described(client, ("group", 0, "x"))
            assert unknown is ErrorCode.unsupported_version

    kit.run(scenario)


def test_only_so_many_entities_are_kept(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone_quotas, "MAX_ENTITIES", 1)

    async def scenario() -> None:
        async with kit.running() as client:
            entries = [
                entry(client, (("user", name),), producer_byte_rate=1.0) for name in ("a", "b")
            ]
            for validate_only in (True, False):
                found = await alter(client, *entries, validate_only=validate_only)
                assert [code for code, _ in found] == [OK, ErrorCode.policy_violation]
            assert [code for code, _ in await alter(client, entries[0])] == [OK]

    kit.run(scenario)


def test_what_cannot_be_written_changes_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            kit.metadata.replace_error = OSError(28, "No space left on device")
            ((code, _),) = await alter(client, entry(client, ALICE, producer_byte_rate=1.0))
            assert code is ErrorCode.kafka_storage_error
            assert await described(client) == {}

    kit.run(scenario)


@pytest.mark.parametrize("text", [b"{}", b'{"quotas":[{"entity":{"user":"a"},"quotas":{"x":1}}]}'])
def test_a_damaged_file_stops_the_start(kit: "Kit", text: bytes) -> None:
    async def scenario() -> None:
        async with kit.running():
            pass
        (kit.directory / "metadata" / "quotas.json").write_bytes(text)
        with pytest.raises(CannotStart, match=r"quotas\.json was changed or is damaged"):
            await kit.new_broker().start()

    kit.run(scenario)


def test_changes_need_permissions_for_the_cluster(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as we:
            denied = ErrorCode.cluster_authorization_failed
            change = entry(we.alice, ALICE, producer_byte_rate=1.0)
            assert [code for code, _ in await alter(we.alice, change, change)] == [denied] * 2
            assert await described(we.alice) is denied
            await we.allow("alter_configs cluster kafka-cluster")
            assert await alter(we.alice, change) == [(OK, None)]
            await we.allow("describe_configs cluster kafka-cluster")
            assert await described(we.alice) == {ALICE: {"producer_byte_rate": 1.0}}

    kit.run(scenario)


# -- what a limited client sees


def limit(kit: "Kit", **values: float) -> None:
    """From now on alice has these quotas."""
    quotas: KnownQuotas = kit.broker.quotas
    quotas.replace(
        QuotaTable({Entity("alice"): {Quota(key): value for key, value in values.items()}})
    )


async def alice(kit: "Kit") -> "Client":
    client = await kit.client()
    await ask_versions(client)
    rename(kit, client, "User:alice")
    return client


async def answered(client: "Client", key: ApiKey, request: Any) -> tuple[Any, float]:
    """An answer, and how long it took."""
    began_s = time.monotonic()
    answer = await client.ask(key, request)
    return answer, time.monotonic() - began_s


def test_a_producer_over_its_rate_is_answered_at_once_and_then_not_read(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            await other.create("logs")
            limit(kit, producer_byte_rate=20_000.0)
            client = await alice(kit)
            request = client.produce_request("logs", kit.batch(LARGE))
            answer, _ = await answered(client, ApiKey.PRODUCE, request)
            muted_s = answer.throttle_time.total_seconds()
            assert 0 < muted_s <= 0.6, "30 kB at 20 kB/s, of which a second's worth is free"
            # The next request is in the socket, and is read after that.
            next_answer, took_s = await answered(client, ApiKey.PRODUCE, request)
            assert took_s >= muted_s - 0.1
            assert next_answer.throttle_time > ZERO
            # Others are not limited.
            produced = await other.ask(
                ApiKey.PRODUCE, other.produce_request("logs", kit.batch(LARGE))
            )
            assert produced.throttle_time == ZERO
            throttled_by = kit.broker.requests.throttled
            assert throttled_by[PRODUCE].times == 2
            assert throttled_by[FETCH].times == 0

    kit.run(scenario)


def test_a_throttled_fetch_is_empty_and_records_come_after_it(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            await other.create("logs")
            for _ in range(4):
                await other.produce("logs", kit.batch(LARGE))
            topic_id = await other.topic_id("logs")
            limit(kit, consumer_byte_rate=40_000.0)
            client = await alice(kit)
            request = client.fetch_request(topic_id, (0, 0))
            first, _ = await answered(client, ApiKey.FETCH, request)
            records = first.responses[0].partitions[0].records
            assert 0 < len(records) <= 40_000, "not more than a second's worth"
            assert first.throttle_time == ZERO
            for _ in range(20):  # at first there may be ten percent of the bucket left
                second, _ = await answered(client, ApiKey.FETCH, request)
                if not second.responses:
                    break
            assert second.responses == ()
            assert second.throttle_time > ZERO
            third, took_s = await answered(client, ApiKey.FETCH, request)
            assert took_s >= second.throttle_time.total_seconds() - 0.1
            assert third.responses[0].partitions[0].records

    kit.run(scenario)


def test_an_open_fetch_session_survives_a_throttled_fetch(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            await other.create("logs")
            topic_id = await other.topic_id("logs")
            client = await alice(kit)
            opened = await client.ask(
                ApiKey.FETCH, client.fetch_request(topic_id, (0, 0), session=(0, 0))
            )
            assert opened.session_id
            for _ in range(3):
                await other.produce("logs", kit.batch(LARGE))
            limit(kit, consumer_byte_rate=10_000.0)
            epoch = 1
            sizes: list[int] = []
            while len(sizes) < 2:
                request = client.fetch_request(None, session=(opened.session_id, epoch))
                answer = await client.ask(ApiKey.FETCH, request)
                assert answer.error_code is OK
                assert answer.session_id == opened.session_id
                sizes.append(len(answer.responses))
                epoch += 1
            assert sizes == [1, 0]
            limit(kit, consumer_byte_rate=1e9)
            request = client.fetch_request(None, session=(opened.session_id, epoch))
            assert (await client.ask(ApiKey.FETCH, request)).responses

    kit.run(scenario)


def test_a_raised_quota_ends_the_throttling(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            await other.create("logs")
            limit(kit, producer_byte_rate=10.0)
            client = await alice(kit)
            request = client.produce_request("logs", kit.batch(LARGE))
            answer, _ = await answered(client, ApiKey.PRODUCE, request)
            assert timedelta(seconds=200) < answer.throttle_time <= timedelta(seconds=300)
            await client.send(ApiKey.PRODUCE, request)
            limit(kit, producer_byte_rate=1e9)
            answer = await asyncio.wait_for(client.receive(), 10)
            assert answer.throttle_time == ZERO

    kit.run(scenario)


def test_a_throttled_connection_is_closed_with_the_broker_and_with_its_user(kit: "Kit") -> None:
    async def scenario() -> None:
        broker = kit.new_broker()
        await broker.start()
        await (await kit.client()).create("logs")
        limit(kit, producer_byte_rate=10.0)
        clients = [await alice(kit), await alice(kit)]
        for client in clients:
            await client.ask(ApiKey.PRODUCE, client.produce_request("logs", kit.batch(LARGE)))
        for acceptor in broker.acceptors:
            for connection in list(acceptor._connections):
                if connection.peer is peer(kit, clients[0]):
                    connection.abort()
        assert await clients[0].is_closed()
        await asyncio.wait_for(broker.stop(), 25)
        assert await clients[1].is_closed()
        kit.close_clients()

    kit.run(scenario)


def test_the_time_of_requests_is_limited(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            limit(kit, request_percentage=0.001)
            client = await alice(kit)
            types = client.types(ApiKey.METADATA)
            request = types.MetadataRequest(
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            answer, _ = await answered(client, ApiKey.METADATA, request)
            assert ZERO < answer.throttle_time <= timedelta(seconds=1)
            assert (await other.metadata()).throttle_time == ZERO
            assert kit.broker.requests.throttled[Quota.REQUEST_PERCENTAGE].times == 1

    kit.run(scenario)


def test_the_time_of_a_request_that_waits_does_not_count(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as other:
            await other.create("logs")
            topic_id = await other.topic_id("logs")
            limit(kit, request_percentage=50.0)
            client = await alice(kit)
            request = client.fetch_request(topic_id, (0, 0), wait_ms=300)
            answer, took_s = await answered(client, ApiKey.FETCH, request)
            assert took_s >= 0.25
            assert answer.throttle_time == ZERO

    kit.run(scenario)


def test_a_users_rate_of_changes_goes_before_that_of_its_address(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(chiplog_controller_mutation_rate="1") as other:
            limit(kit, controller_mutation_rate=1_000.0)
            client = await alice(kit)
            for name in ("a", "b", "c"):
                assert await client.create(name, 12) is OK
            assert await other.create("d", 12) is OK
            assert await other.create("e", 1) is ErrorCode.throttling_quota_exceeded
            assert await client.create("f", 1) is OK
            limit(kit, controller_mutation_rate=0.0)
            assert await client.create("g", 1) is ErrorCode.throttling_quota_exceeded

    kit.run(scenario)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_answer_with_a_throttle_time_gets_one(key: int) -> None:
    api = APIS[key]
    layout = schema.response_class(ApiKey(key), api.max_version)
    has_field = "throttle_time" in schema.shapes(layout)
    without = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS}
    assert has_field is (api.key not in without)
    message = layout(**schema.defaults(layout))
    changed = throttled(message, 7)
    if has_field:
        assert changed.throttle_time == timedelta(milliseconds=7)
        assert throttled(changed, 3) == changed
    else:
        assert changed is message
