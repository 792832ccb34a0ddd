"""CreateTopics, DeleteTopics, CreatePartitions, Metadata and what they leave behind."""

import asyncio
import errno
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
HANG_GUARD_S = 30


async def delete(client: "Client", *topics: tuple[str | None, UUID | None]) -> list[ErrorCode]:
    types = client.types(ApiKey.DELETE_TOPICS)
    request = types.DeleteTopicsRequest(
        topics=tuple(types.DeleteTopicState(name=name, topic_id=id_) for name, id_ in topics),
        timeout=request_timeout(client),
    )
    answer = await client.ask(ApiKey.DELETE_TOPICS, request)
    return [ErrorCode(one.error_code) for one in answer.responses]


def request_timeout(client: "Client") -> Any:
    return client.fetch_request(None, wait_ms=5000).max_wait


async def create(client: "Client", *topics: dict[str, Any], validate_only: bool = False) -> Any:
    types = client.types(ApiKey.CREATE_TOPICS)
    defaults = {"num_partitions": -1, "replication_factor": -1, "assignments": (), "configs": ()}
    request = types.CreateTopicsRequest(
        topics=tuple(types.CreatableTopic(**(defaults | topic)) for topic in topics),
        validate_only=validate_only,
    )
    return (await client.ask(ApiKey.CREATE_TOPICS, request)).topics


def test_creating(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(num_partitions="4") as client:
            (planned,) = await create(client, {"name": "orders"}, validate_only=True)
            assert (planned.error_code, planned.num_partitions) == (OK, 4)
            answer = await client.metadata("orders")
            assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition
            made, *twice = await create(client, {"name": "orders"}, {"name": "a"}, {"name": "a"})
            assert (made.error_code, made.num_partitions, made.replication_factor) == (OK, 4, 1)
            assert {one.name: one.value for one in made.configs}["retention.ms"] == "604800000"
            assert [one.error_code for one in twice] == [ErrorCode.invalid_request]
            again, bad = await create(
                client, {"name": "orders"}, {"name": "b", "replication_factor": 3}
            )
            assert again.error_code == ErrorCode.topic_already_exists
            assert bad.error_code == ErrorCode.invalid_replication_factor

    kit.run(scenario)


def test_deleting_by_name_and_by_id(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            for name in ("a", "b", "c"):
                await client.create(name)
            a, b = [await client.topic_id(name) for name in ("a", "b")]
            invalid = ErrorCode.invalid_request
            assert await delete(client, ("c", None), ("c", None)) == [invalid]
            assert await delete(client, (None, a), (None, a)) == [invalid]
            assert await delete(client, ("a", None), (None, a)) == [invalid, invalid]
            assert await delete(client, (None, None)) == [invalid]
            assert await delete(client, ("a", b)) == [invalid]
            assert await delete(client, ("a", None), (None, b)) == [OK, OK]
            assert await delete(client, ("a", None), (None, b), (None, UUID(int=7))) == [
                ErrorCode.unknown_topic_or_partition,
                ErrorCode.unknown_topic_id,
                ErrorCode.unknown_topic_id,
            ]
            assert await client.users_topics() == ["c"]

    kit.run(scenario)


def test_creating_where_the_client_says(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            types = client.types(ApiKey.CREATE_TOPICS)

            async def code(*placed: tuple[int, tuple[int, ...]], **more: Any) -> ErrorCode:
                assignments = tuple(
                    types.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                    for index, brokers in placed
                )
                topic = {"name": "orders", "assignments": assignments, **more}
                return ErrorCode((await create(client, topic))[0].error_code)

            invalid = ErrorCode.invalid_replica_assignment
            assert await code((0, (1,)), (0, (1,))) == invalid
            assert await code((0, (2,))) == invalid
            assert await code((0, (1, 1))) == invalid
            assert await code((1, (1,))) == invalid
            assert await code((0, ())) == invalid
            assert await code((0, (1,)), num_partitions=1) == ErrorCode.invalid_request
            assert await code((0, (1,)), replication_factor=1) == ErrorCode.invalid_request
            assert await code((1, (1,)), (0, (1,))) == OK
            assert len((await client.metadata("orders")).topics[0].partitions) == 2

    kit.run(scenario)


def test_growing_where_the_client_says(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            types = client.types(ApiKey.CREATE_PARTITIONS)

            async def code(count: int, *brokers: tuple[int, ...], name: str = "orders") -> int:
                assignments = tuple(
                    types.CreatePartitionsAssignment(broker_ids=one) for one in brokers
                )
                topic = types.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
                request = types.CreatePartitionsRequest(
                    topics=(topic,), timeout=request_timeout(client), validate_only=False
                )
                answer = await client.ask(ApiKey.CREATE_PARTITIONS, request)
                return ErrorCode(answer.results[0].error_code)

            invalid = ErrorCode.invalid_replica_assignment
            assert await code(3) == invalid
            assert await code(2) == ErrorCode.invalid_partitions
            assert await code(3, name="nowhere") == ErrorCode.unknown_topic_or_partition
            assert await code(4, (1,)) == invalid
            assert await code(3, (2,)) == invalid
            assert await code(4, (1,), (1,)) == OK

    kit.run(scenario)


def test_growing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            types = client.types(ApiKey.CREATE_PARTITIONS)

            async def grow(*counts: int, name: str = "orders") -> list[ErrorCode]:
                answer = await client.ask(
                    ApiKey.CREATE_PARTITIONS,
                    types.CreatePartitionsRequest(
                        topics=tuple(
                            types.CreatePartitionsTopic(name=name, count=one, assignments=None)
                            for one in counts
                        ),
                        timeout=request_timeout(client),
                        validate_only=False,
                    ),
                )
                return [ErrorCode(one.error_code) for one in answer.results]

            assert await grow(4) == [OK]
            assert await grow(4) == [ErrorCode.invalid_partitions]
            assert await grow(3) == [ErrorCode.invalid_partitions]
            assert await grow(5, 6) == [ErrorCode.invalid_request]
            assert await grow(5, name="nowhere") == [ErrorCode.unknown_topic_or_partition]
            (answer,) = await client.produce("orders", kit.batch(b"x"), partition=3)
            assert answer.error_code == OK
            (answer,) = await client.produce("orders", kit.batch(b"x"), partition=4)
            assert answer.error_code == ErrorCode.unknown_topic_or_partition

    kit.run(scenario)


def test_unknown_topics_are_created_only_where_both_sides_want_it(kit: "Kit") -> None:
    async def scenario() -> None:
        unknown = ErrorCode.unknown_topic_or_partition
        async with kit.running() as client:
            answer = await client.metadata("orders", auto_create=True)
            assert answer.topics[0].error_code == unknown
            assert await client.users_topics() == []
        async with kit.running(auto_create_topics_enable="true", num_partitions="3") as client:
            answer = await client.metadata("orders")
            assert answer.topics[0].error_code == unknown
            answer = await client.metadata("orders", "no/name", "orders", auto_create=True)
            made, invalid = answer.topics
            assert (made.error_code, len(made.partitions)) == (OK, 3)
            assert invalid.error_code == ErrorCode.invalid_topic_exception

    kit.run(scenario)


def test_a_topic_requested_often_is_answered_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            assert len((await client.metadata(*["orders"] * 50)).topics) == 1

    kit.run(scenario)


def test_a_client_that_leaves_does_not_stop_half_way_what_it_requested(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            kit.disk.may_sync.clear()
            leaver = await kit.client()
            types = leaver.types(ApiKey.CREATE_TOPICS)
            topic = types.CreatableTopic(
                name="orders", num_partitions=9, replication_factor=1, assignments=(), configs=()
            )
            await leaver.send(ApiKey.CREATE_TOPICS, types.CreateTopicsRequest(topics=(topic,)))
            leaver.writer.transport.abort()
            kit.disk.may_sync.set()
            assert await client.create("orders", 9) is ErrorCode.topic_already_exists
            (answer,) = await client.produce("orders", kit.batch(b"x"), partition=8)
            assert answer.error_code == OK

    kit.run(scenario)


def test_a_topic_that_cannot_be_made_leaves_nothing_behind(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            kit.disk.make_error = OSError(errno.ENOSPC, "no space left on device")
            assert await client.create("orders") is ErrorCode.kafka_storage_error
            kit.disk.make_error = None
            assert await client.users_topics() == []
            assert await client.create("orders") is OK
            kit.metadata.replace_error = OSError(errno.ENOSPC, "no space left on device")
            assert await client.create("more") is ErrorCode.kafka_storage_error
            assert (await client.alter("orders", ("retention.ms", 0, "5")))[0] is (
                ErrorCode.kafka_storage_error
            )
            kit.metadata.replace_error = None
            _, configs = await client.configs("orders", "retention.ms")
            assert configs["retention.ms"].value == "604800000"
        async with kit.running() as client:
            assert await client.users_topics() == ["orders"]

    kit.run(scenario)


def test_a_name_taken_by_the_data_of_a_topic_nobody_claims(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            await client.produce("orders", kit.batch(b"old"))
        # As after a crash in the middle of a deletion.
        (kit.directory / "metadata" / "topics" / "orders.json").unlink()
        async with kit.running() as client:
            assert await client.create("orders") is OK
            (answer,) = await client.produce("orders", kit.batch(b"new"))
            assert (answer.error_code, answer.base_offset) == (OK, 0)
        names = [path.name for path in (kit.directory / "data").iterdir()]
        assert any(name.endswith("-stray") for name in names)

    kit.run(scenario)


def test_a_file_half_written_does_not_keep_the_broker_from_starting(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
        (kit.directory / "metadata" / "topics" / "more.json.tmp").write_text('{"na')
        async with kit.running() as client:
            assert await client.users_topics() == ["orders"]

    kit.run(scenario)


def test_pages_of_partitions(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            for name, count in (("a", 3), ("b", 2), ("d", 1)):
                await client.create(name, count)
            types = client.types(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
            cursor, pages = None, []
            while True:
                answer = await client.ask(
                    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                    types.DescribeTopicPartitionsRequest(
                        topics=tuple(types.TopicRequest(name=name) for name in "abcd"),
                        response_partition_limit=2,
                        cursor=cursor,
                    ),
                )
                pages.append([(one.name, len(one.partitions)) for one in answer.topics])
                if answer.next_cursor is None:
                    break
                at = answer.next_cursor
                cursor = types.Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
            assert pages == [[("a", 2)], [("a", 1), ("b", 1)], [("b", 1), ("c", 0), ("d", 1)]]

    kit.run(scenario)


def test_topics_change_and_vanish_while_clients_request_them(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as first:
            second = await kit.client()
            await first.create("orders")
            changed = await asyncio.gather(
                first.alter("orders", ("retention.ms", 0, "5000")),
                second.alter("orders", ("segment.ms", 0, "6000")),
            )
            assert list(changed) == [(OK, ""), (OK, "")]
            _, configs = await first.configs("orders", "retention.ms", "segment.ms")
            assert [one.value for one in configs.values()] == ["5000", "6000"]
            codes = await asyncio.gather(first.delete("orders"), second.delete("orders"))
            assert sorted(codes) == [OK, ErrorCode.unknown_topic_or_partition]

    kit.run(scenario)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@pytest.mark.parametrize("name", ["", None, "other"])
def test_a_topic_is_requested_by_its_id(kit: "Kit", version: int, name: str | None) -> None:
    """Java's Admin sends an empty name beside the id. Nothing is created by that."""

    async def scenario() -> None:
        async with kit.running(auto_create_topics_enable="true") as client:
            await client.create("orders")
            known, unknown = await client.topic_id("orders"), UUID(int=7)
            types = client.types(ApiKey.METADATA, version)
            more = {"include_cluster_authorized_operations": False} if version == 10 else {}
            request = types.MetadataRequest(
                topics=tuple(
                    types.MetadataRequestTopic(topic_id=one, name=name) for one in (known, unknown)
                ),
                allow_auto_topic_creation=True,
                include_topic_authorized_operations=False,
                **more,
            )
            found, missing = (await client.ask(ApiKey.METADATA, request, version)).topics
            assert (found.error_code, found.name, found.topic_id) == (OK, "orders", known)
            assert (missing.error_code, missing.topic_id) == (ErrorCode.unknown_topic_id, unknown)
            assert await client.users_topics() == ["orders"]

    kit.run(scenario)


def test_a_deleted_topic_frees_its_space_after_the_delay(kit: "Kit") -> None:
    """Not only when retention is applied, every five minutes."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 1, file_delete_delay_ms="0")
            await client.produce("orders", kit.batch(b"x"))
            await client.delete("orders")
            for _ in range(HANG_GUARD_S * 10):
                if not list(kit.directory.glob("data/orders-*")):
                    return
                await asyncio.sleep(0.1)
            pytest.fail("the files are still there")

    kit.run(scenario)
