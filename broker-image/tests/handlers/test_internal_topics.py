"""Internal topics of a standalone broker: there from the start, and nobody's to change."""

import errno
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.standalone import topic_path
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
INVALID = ErrorCode.invalid_topic_exception
OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
of_each = pytest.mark.parametrize("name", [OFFSETS, TRANSACTIONS])
LATEST = -1
SEVERAL = {
    "offsets_topic_num_partitions": "50",
    "transaction_state_log_num_partitions": "50",
}


async def described(client: "Client", name: str = OFFSETS) -> Any:
    (topic,) = (await client.metadata(name)).topics
    return topic


async def grow(client: "Client", name: str, count: int) -> ErrorCode:
    types = client.types(ApiKey.CREATE_PARTITIONS)
    topic = types.CreatePartitionsTopic(name=name, count=count, assignments=None)
    timeout = client.fetch_request(None, wait_ms=5000).max_wait
    request = types.CreatePartitionsRequest(topics=(topic,), timeout=timeout, validate_only=False)
    return ErrorCode((await client.ask(ApiKey.CREATE_PARTITIONS, request)).results[0].error_code)


@of_each
def test_it_is_there_before_the_first_group(kit: "Kit", name: str) -> None:
    async def scenario() -> None:
        async with kit.running(**SEVERAL) as client:
            topic = await described(client, name)
            assert topic.is_internal
            assert [one.leader_id for one in topic.partitions] == [1] * 50
            code, configs = await client.configs(name)
            assert code is OK
            values = {key: config.value for key, config in configs.items()}
            assert (
                values
                | {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "min.insync.replicas": "1",
                    "segment.bytes": "104857600",
                }
                == values
            )
            assert (await client.offset(name, LATEST))[0] is OK

    kit.run(scenario)


@pytest.mark.parametrize(
    ("name", "keys"), [(OFFSETS, "offsets.topic.*"), (TRANSACTIONS, "transaction.state.log.*")]
)
def test_nobody_creates_deletes_grows_or_configures_it(kit: "Kit", name: str, keys: str) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            before = await described(client, name)
            assert await client.create(name) is ErrorCode.topic_already_exists
            assert await client.create("__share_group_state") is INVALID
            assert await client.delete(name) is INVALID
            assert await grow(client, name, 60) is INVALID
            code, message = await client.alter(name, ("cleanup.policy", 0, "delete"))
            assert (code, message) == (
                INVALID,
                (
                    f"{name} is an internal topic, which clients cannot change or "
                    f"delete: change the {keys} keys of the brokers' configuration"
                ),
            )
            assert await described(client, name) == before

    kit.run(scenario)


@of_each
def test_no_client_writes_to_it_or_deletes_from_it(kit: "Kit", name: str) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            for acks in (1, -1):
                (answer,) = await client.produce(name, kit.batch(b"x"), acks=acks)
                assert answer.error_code == INVALID
                assert "clients cannot write to it" in answer.error_message
            assert (await client.delete_records(name, 0))[0] is INVALID
            topic_id = await client.topic_id(name)
            assert await client.fetch(topic_id, (0, 0)) == [(OK, b"")], "but it may be read"

    kit.run(scenario)


def test_what_it_was_made_with_stays_and_its_configuration_follows(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(offsets_topic_num_partitions="3") as client:
            before = await described(client)
        changed = {"offsets_topic_segment_bytes": "2097152", **SEVERAL}
        async with kit.running(**changed) as client:
            after = await described(client)
            assert (after.topic_id, len(after.partitions)) == (before.topic_id, 3)
            _, configs = await client.configs(OFFSETS, "segment.bytes")
            assert configs["segment.bytes"].value == "2097152"
            # A topic's reign begins anew with the session.
            assert after.partitions[0].leader_epoch == before.partitions[0].leader_epoch + 1

    kit.run(scenario)


def test_a_broker_of_an_earlier_version_gets_the_topic_of_transactions(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            before = await described(client)
        (kit.directory / "metadata" / topic_path(TRANSACTIONS)).unlink()
        async with kit.running() as client:
            assert (await described(client, TRANSACTIONS)).error_code == OK
            assert (await described(client)).topic_id == before.topic_id

    kit.run(scenario)


def test_where_the_disk_has_no_room_for_it_the_next_start_makes_it(kit: "Kit") -> None:
    async def scenario() -> None:
        broker = kit.new_broker()
        kit.disk.make_error = OSError(errno.ENOSPC, "no space left on device")
        await broker.start()
        try:
            client = await kit.client()
            for name in (OFFSETS, TRANSACTIONS):
                found = await described(client, name)
                assert found.error_code == ErrorCode.unknown_topic_or_partition
            kit.disk.make_error = None
            assert await client.create("orders") is OK, "all else goes on"
        finally:
            kit.close_clients()
            await broker.stop()
        async with kit.running() as client:
            for name in (OFFSETS, TRANSACTIONS):
                assert (await described(client, name)).error_code == OK

    kit.run(scenario)
