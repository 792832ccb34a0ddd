"""Produces that take long: done in turns, in order, and by nobody else's time."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers import produce
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import HEADER_BYTES, Codec, read_header, seal
from chiplog_wire.records.scan import (
    QUICK_BYTES,
    QUICK_RECORDS,
    RECORDS_PER_STEP,
    TakesLong,
    check_keys,
    check_keys_quickly,
)
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.conftest import Kit

MANY = QUICK_RECORDS + 1
OK = ErrorCode.none


def keyed(
    count: int, codec: Codec = Codec.NONE, sequence: int | None = None, *, last: bytes | None = b"k"
) -> bytes:
    """A batch of records with keys; the last one has the key given."""
    keys = [*[b"k"] * (count - 1), last]
    producer = (
        Producer() if sequence is None else Producer(producer_id=7, epoch=0, base_sequence=sequence)
    )
    options = BatchOptions(codec=codec, producer=producer)
    return bytes(build_batch([NewRecord(b"v", one, timestamp_ms=1) for one in keys], options))


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in answers]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_of_many_records_for_a_compacted_topic(kit: "Kit", codec: Codec, acks: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", cleanup_policy="compact")
            sent = keyed(MANY, codec), keyed(1), keyed(MANY, codec, last=None), keyed(1)
            answers = await client.produce("orders", *sent, acks=acks)
            assert codes(answers) == [OK, OK, ErrorCode.invalid_record, OK]
            assert [one.base_offset for one in answers] == [0, MANY, -1, MANY + 1]
            (partition,) = kit.partitions("orders")
            assert partition.log.end_offset == MANY + 2

    kit.run(scenario)


def test_nothing_overtakes_a_produce_that_takes_long(kit: "Kit") -> None:
    """Sequences in one connection stay in order, in whatever pieces their frames come."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", cleanup_policy="compact")
            sequence = 0
            for count in (1, MANY, 2, MANY, 3):
                batch = keyed(count, Codec.ZSTD, sequence)
                await client.send(ApiKey.PRODUCE, client.produce_request("orders", batch))
                sequence += count
            offsets = []
            for _ in range(5):
                (answer,) = (await client.receive()).responses[0].partition_responses
                assert ErrorCode(answer.error_code) is OK
                offsets.append(answer.base_offset)
            assert offsets == [0, 1, 1 + MANY, 3 + MANY, 3 + 2 * MANY]

    kit.run(scenario)


def test_what_is_sent_behind_it_does_not_change_its_frame(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", cleanup_policy="compact")
            topic_id = await client.topic_id("orders")
            request = client.produce_request("orders", keyed(MANY), acks=1)
            for _ in range(3):
                await client.send(ApiKey.PRODUCE, request)
                await client.send(ApiKey.PRODUCE, client.produce_request("orders", keyed(1)))
            for _ in range(6):
                await client.receive()
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert code is OK
            assert read_header(records).record_count == MANY
            await client.produce("orders", keyed(1))

    kit.run(scenario)


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_batches_of_many_partitions_are_appended_in_slices(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    monkeypatch.setattr(produce, "MAX_UNSLICED_BATCHES", 3)

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            request = client.produce_request("orders", *[kit.batch(b"x")] * 8, acks=acks)
            await client.send(ApiKey.PRODUCE, request)
            if acks:
                (topic,) = (await client.receive()).responses
                assert [one.base_offset for one in topic.partition_responses] == list(range(8))
            else:
                client._sent.clear()  # there is no answer
            await client.offset("orders", -1)  # it is begun when all were appended
            assert kit.partitions("orders")[0].log.end_offset == 8

    kit.run(scenario)


def test_a_refusal_without_an_answer_closes_the_connection(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "MAX_UNSLICED_BATCHES", 1)

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            bad = kit.batch(b"x")[:-1]
            request = client.produce_request("orders", kit.batch(b"x"), bad, acks=0)
            await client.send(ApiKey.PRODUCE, request)
            assert await client.is_closed()

    kit.run(scenario)


def test_a_client_that_leaves_has_its_records_appended(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", cleanup_policy="compact")
            leaver = await kit.client()
            await leaver.send(ApiKey.PRODUCE, leaver.produce_request("orders", keyed(MANY)))
            leaver.writer.close()
            while (await client.offset("orders", -1))[2] != MANY:
                pass

    kit.run(scenario)


def test_a_batch_is_checked_in_short_steps() -> None:
    batch = memoryview(keyed(10 * RECORDS_PER_STEP))
    header = read_header(batch)
    with pytest.raises(TakesLong):
        check_keys_quickly(batch, header)
    assert list(check_keys(batch, header)) == [None] * 10


def test_what_inflates_to_much_takes_long_be_it_ever_so_small() -> None:
    record = NewRecord(bytes(QUICK_BYTES), b"k", timestamp_ms=1)
    batch = memoryview(build_batch([record], BatchOptions(codec=Codec.ZSTD)))
    assert len(batch) < 1000
    with pytest.raises(TakesLong):
        check_keys_quickly(batch, read_header(batch))


def test_what_cannot_be_inflated_is_refused_in_the_end(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", cleanup_policy="compact")
            broken = bytearray(keyed(3, Codec.ZSTD))
            broken[HEADER_BYTES] ^= 0xFF
            seal(memoryview(broken))
            (answer,) = await client.produce("orders", bytes(broken))
            assert ErrorCode(answer.error_code) is ErrorCode.corrupt_message

    kit.run(scenario)
