"""Requests that name thousands of things: read and answered beside the event loop, in order."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers.group_offsets import MAX_UNSLICED_PARTITIONS
from chiplog_broker.server import dispatch
from chiplog_broker.server.dispatch import LARGE_ANSWER, LARGE_BODY_BYTES, is_large
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import Producer
from tests.coordinator.groups_kit import Group, running

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

NAMES = tuple(f"topic-{number:020}" for number in range(LARGE_BODY_BYTES // 20))


async def send_metadata(client: "Client", *names: str) -> None:
    types = client.types(ApiKey.METADATA)
    topics = tuple(types.MetadataRequestTopic(topic_id=None, name=name) for name in names)
    await client.send(
        ApiKey.METADATA,
        types.MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done in another thread."""
    done: list[str] = []
    in_thread = dispatch.in_thread

    async def noted(call: Any, *given: Any) -> Any:
        done.append(call.__name__)
        return await in_thread(call, *given)

    monkeypatch.setattr(dispatch, "in_thread", noted)
    return done


def test_answers_stay_in_order(kit: "Kit", elsewhere: list[str]) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for names in ((*NAMES, "orders"), ("orders",), NAMES, ("orders",)):
                await send_metadata(client, *names)
            answers = [await client.receive() for _ in range(4)]
            counts = [len(one.topics) for one in answers]
            assert counts == [len(NAMES) + 1, 1, len(NAMES), 1]
            assert answers[0].topics[-1].error_code == ErrorCode.none
            assert answers[0].topics[0].error_code == ErrorCode.unknown_topic_or_partition
            assert elsewhere == ["decode_request", "encode_response"] * 2

    kit.run(scenario)


def test_a_small_request_with_a_large_answer(kit: "Kit", elsewhere: list[str]) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            types = client.types(ApiKey.DESCRIBE_GROUPS)
            for count, expected in ((LARGE_ANSWER, []), (LARGE_ANSWER + 1, ["encode_response"])):
                request = types.DescribeGroupsRequest(
                    groups=tuple(map(str, range(count))), include_authorized_operations=False
                )
                answer = await client.ask(ApiKey.DESCRIBE_GROUPS, request)
                assert len(answer.groups) == count
                assert elsewhere == expected

    kit.run(scenario)


def test_a_large_answer_within_one_partition(kit: "Kit", elsewhere: list[str]) -> None:
    """Which producers a partition remembers is up to whoever writes to it."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            types = client.types(ApiKey.DESCRIBE_PRODUCERS)
            topic = types.TopicRequest(name="orders", partition_indexes=(0,))
            request = types.DescribeProducersRequest(topics=(topic,))
            for producer_id in range(LARGE_ANSWER + 1):
                producer = Producer(producer_id=producer_id, epoch=0, base_sequence=0)
                await client.produce("orders", kit.batch(b"x", producer=producer), acks=1)
            answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, request)
            (found,) = answer.topics[0].partitions
            assert len(found.active_producers) == LARGE_ANSWER + 1
            assert elsewhere == ["encode_response"]

    kit.run(scenario)


def test_all_replicas_of_a_broker(kit: "Kit", elsewhere: list[str]) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", LARGE_ANSWER + 1)
            types = client.types(ApiKey.DESCRIBE_LOG_DIRS)
            request = types.DescribeLogDirsRequest(topics=None)
            answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, request)
            (topic,) = [one for one in answer.results[0].topics if one.name == "orders"]
            assert len(topic.partitions) == LARGE_ANSWER + 1
            assert elsewhere == ["encode_response"]

    kit.run(scenario)


def test_a_join_with_much_metadata_waits_as_any_other(kit: "Kit", elsewhere: list[str]) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client)
            member = await group.be_alone(metadata=bytes(2 * LARGE_BODY_BYTES))
            assert "decode_request" in elsewhere
            assert await group.heartbeat(member) is ErrorCode.none
            # Somebody who gives up while others are waited for is no fault of ours.
            other = Group(await kit.client())
            asked = await other.join(metadata=bytes(2 * LARGE_BODY_BYTES), session_ms=10)
            assert asked.error_code == ErrorCode.invalid_session_timeout
            await other.send_join(metadata=bytes(2 * LARGE_BODY_BYTES))
            other.client.writer.close()
            assert await group.heartbeat(member) in {
                ErrorCode.none,
                ErrorCode.rebalance_in_progress,
            }

    kit.run(scenario)


def test_a_commit_for_thousands_of_partitions(kit: "Kit", elsewhere: list[str]) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 3)
            group = Group(client)
            many = [(number % 4, number) for number in range(MAX_UNSLICED_PARTITIONS + 2)]
            codes = await group.commit("orders", *many)
            assert elsewhere == ["decode_request", "encode_response"]
            unknown = ErrorCode.unknown_topic_or_partition
            assert codes == [unknown if index == 3 else ErrorCode.none for index, _ in many]
            found = await group.offsets(("orders", (0, 1, 2)))
            # Of one that is named again and again the last counts.
            assert [one[0] for one in found.values()] == [2000, 2001, 1998]

    kit.run(scenario)


@pytest.mark.parametrize("count", [1, 3000])
def test_a_large_request_that_makes_no_sense_closes_its_connection(kit: "Kit", count: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            body = count.to_bytes(4, "big") + b"\xff" * (LARGE_BODY_BYTES + 1)
            head = ApiKey.METADATA.to_bytes(2, "big") + bytes([0, 4, 0, 0, 0, 1, 0xFF, 0xFF])
            frame = head + body
            client.writer.write(len(frame).to_bytes(4, "big") + frame)
            assert await client.is_closed()
            assert (await (await kit.client()).metadata()).brokers

    kit.run(scenario)


def test_a_fault_of_ours_costs_one_connection(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with kit.running() as client:

            def broken(*_: object) -> None:
                raise ZeroDivisionError

            monkeypatch.setattr(dispatch, "encode_response", broken)
            await send_metadata(client, *NAMES)
            assert await client.is_closed()
            monkeypatch.undo()
            assert (await (await kit.client()).metadata()).brokers

    kit.run(scenario)


def test_what_is_large_can_be_seen_without_a_full_scan() -> None:
    assert not is_large(None)
    assert not is_large([1] * 1000)
