"""When a producer is told that its records are safe, and when it must not be told so."""

import asyncio
import errno
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.view import NO_EPOCH, PartitionView
from chiplog_broker.partitions import refusals
from chiplog_broker.ports.disk import DiskUsage
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import iter_batches
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in answers]


async def numbered(
    kit: "Kit", client: "Client", topic: str, sequence: int, producer_id: int = 7
) -> str:
    """What the broker answers to an idempotent producer's batch with this sequence number."""
    producer = Producer(producer_id=producer_id, epoch=0, base_sequence=sequence)
    sent = kit.batch(b"%d" % sequence, producer=producer)
    (answer,) = codes(await client.produce(topic, sent))
    return answer.name


async def nothing_comes(client: "Client", seconds: float = 0.1) -> bool:
    """Whether the broker is silent for a while."""
    await asyncio.sleep(seconds)
    try:
        async with asyncio.timeout(0.001):
            await client.reader.readexactly(0 if client.reader.at_eof() else 1)
    except TimeoutError:
        return True
    return False


def test_acks_all_waits_for_the_disk_and_acks_1_does_not(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            kit.disk.may_sync.clear()
            assert codes(await client.produce("orders", kit.batch(b"a"), acks=1)) == [OK]
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", kit.batch(b"b")))
            assert await nothing_comes(client)
            kit.disk.may_sync.set()
            (answer,) = (await client.receive()).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (OK, 1)

    kit.run(scenario)


def test_a_duplicate_waits_like_its_original(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            kit.disk.may_sync.clear()
            sent = kit.batch(b"a", producer=Producer(producer_id=7, epoch=0, base_sequence=0))
            again = await kit.client()
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", sent))
            await again.send(ApiKey.PRODUCE, again.produce_request("orders", sent))
            assert await nothing_comes(again)
            kit.disk.may_sync.set()
            for one in (client, again):
                (answer,) = (await one.receive()).responses[0].partition_responses
                assert (answer.error_code, answer.base_offset) == (OK, 0)

    kit.run(scenario)


def test_a_duplicate_of_long_ago_waits_until_all_that_may_be_it_is_safe(kit: "Kit") -> None:
    """A client takes this error for success, so it must not come before the records are safe."""

    def sent(sequence: int) -> bytes:
        return kit.batch(b"a", producer=Producer(producer_id=7, epoch=0, base_sequence=sequence))

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            kit.disk.may_sync.clear()
            for sequence in range(8):
                await client.send(
                    ApiKey.PRODUCE, client.produce_request("orders", sent(sequence), acks=1)
                )
                await client.receive()
            again = await kit.client()
            await again.send(ApiKey.PRODUCE, again.produce_request("orders", sent(0)))
            assert await nothing_comes(again)
            kit.disk.may_sync.set()
            (answer,) = (await again.receive()).responses[0].partition_responses
            assert answer.error_code == ErrorCode.duplicate_sequence_number
            assert answer.base_offset == -1
            topic_id = await client.topic_id("orders")
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert code is OK
            assert [one.base_offset for _, one in iter_batches(records)] == [*range(8)]

    kit.run(scenario)


def test_one_partition_twice_in_a_request_is_answered_when_both_batches_are_safe(
    kit: "Kit",
) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            answers = await client.produce("orders", kit.batch(b"a"), kit.batch(b"b"))
            assert [one.base_offset for one in answers] == [0, 1]
            # The second of two batches of one partition waits by itself.
            await client.create("cached", chiplog_durability="PageCache")
            answers = await client.produce("cached", kit.batch(b"a"), kit.batch(b"b"))
            assert codes(answers) == [OK, OK]

    kit.run(scenario)


def test_a_slow_disk_times_out_and_the_record_is_there_later(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            kit.disk.may_sync.clear()
            late = await client.produce("orders", kit.batch(b"a"), timeout_ms=50)
            assert codes(late) == [ErrorCode.request_timed_out]
            topic_id = await client.topic_id("orders")
            assert await client.fetch(topic_id, (0, 0)) == [(OK, b"")]
            kit.disk.may_sync.set()
            ((code, records),) = await client.fetch(topic_id, (0, 0), wait_ms=5000)
            assert code is OK
            assert records

    kit.run(scenario)


def test_a_broken_disk_acknowledges_nothing_and_fails_the_probe(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            await client.create("other")
            topic_id = await client.topic_id("orders")
            assert codes(await client.produce("orders", kit.batch(b"a"))) == [OK]
            kit.disk.break_syncs()
            waiting = await kit.client()
            await waiting.send(ApiKey.FETCH, waiting.fetch_request(topic_id, (0, 1), wait_ms=9000))
            failed = await client.produce("orders", kit.batch(b"b"))
            assert codes(failed) == [ErrorCode.kafka_storage_error]
            answer = await waiting.receive()
            (found,) = answer.responses[0].partitions
            assert found.error_code == ErrorCode.kafka_storage_error
            syncs = kit.disk.syncs
            # The whole directory is offline, and a disk that works again is not believed.
            kit.disk.sync_error = None
            refused = await client.produce("other", kit.batch(b"c"))
            assert codes(refused) == [ErrorCode.kafka_storage_error]
            ((code, _),) = await client.fetch(topic_id, (0, 0))
            assert code is ErrorCode.kafka_storage_error
            assert kit.disk.syncs == syncs
            alive, why = kit.broker.health.liveness()
            assert not alive
            assert "broken" in why
        assert not (kit.directory / "data" / ".kafka_cleanshutdown").exists()

    kit.run(scenario)


def test_a_failed_checkpoint_fails_the_probe_as_a_failed_sync_does(kit: "Kit") -> None:
    async def scenario() -> None:
        settings = {"log_flush_offset_checkpoint_interval_ms": "20"}
        async with kit.running(**settings) as client:
            await client.create("orders")
            kit.disk.replace_error = OSError(5, "the device is broken")
            await client.produce("orders", kit.batch(b"a"))
            async with asyncio.timeout(5):
                while kit.broker.health.liveness()[0]:
                    await client.metadata()
            failed = await client.produce("orders", kit.batch(b"b"))
            assert codes(failed) == [ErrorCode.kafka_storage_error]

    kit.run(scenario)


def test_a_full_disk_refuses_records_for_now_and_serves_readers(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            await client.produce("orders", kit.batch(b"a"))
            kit.disk.fill_up()
            full = await client.produce("orders", kit.batch(b"b"))
            assert codes(full) == [ErrorCode.not_enough_replicas]
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert code is OK
            assert records
            assert kit.broker.health.liveness()[0]
            kit.disk.append_error = None
            (answer,) = await client.produce("orders", kit.batch(b"c"))
            assert (answer.error_code, answer.base_offset) == (OK, 1)

    kit.run(scenario)


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ("too few replicas", "not_enough_replicas"),
        ("isolation", "not_leader_or_follower"),
        ("no room", "not_enough_replicas"),
    ],
)
def test_what_followed_a_refused_batch_is_refused_alike(
    kit: "Kit", trouble: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a gap in the sequence: that makes librdkafka begin a new epoch, and send again
    under it what is stored already and not acknowledged yet."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            (partition,) = kit.partitions("orders")

            def begin(*, is_in_trouble: bool) -> None:
                if trouble == "isolation":
                    partition.is_isolated = is_in_trouble
                elif trouble == "no room":
                    full = OSError(errno.ENOSPC, "no space left on device")
                    kit.disk.append_error = full if is_in_trouble else None
                else:
                    partition.has_min_isr = not is_in_trouble

            send = partial(numbered, kit, client, "orders")

            assert await send(0) == "none"
            assert await send(2) == "not_leader_or_follower", "the partition is new"
            with monkeypatch.context() as later:
                later.setattr(refusals, "ALIKE_S", 0.0)
                assert await send(2) == "out_of_order_sequence_number", "nothing was refused before"
            begin(is_in_trouble=True)
            assert await send(1) == code
            begin(is_in_trouble=False)
            assert await send(2) == code, "it was under way before the refusal was known"
            assert [await send(sequence) for sequence in (0, 1, 2)] == ["none"] * 3
            monkeypatch.setattr(refusals, "ALIKE_S", 0.0)
            assert await send(9) == "out_of_order_sequence_number"

    kit.run(scenario)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    ("trouble", "code"),
    [("too few replicas", "not_enough_replicas"), ("no leader", "not_leader_or_follower")],
)
def test_what_follows_the_first_batch_of_a_producer_is_not_taken_before_it(
    kit: "Kit", trouble: str, code: str, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    """It would be taken as the first, as the producer is not known. The first one would be a gap
    then, and Java's producer sends it in vain until its time is up (KAFKA-15591)."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            (partition,) = kit.partitions("orders")
            if not is_new:
                await client.produce("orders", kit.batch(b"of somebody else"))

            send = partial(numbered, kit, client, "orders")

            epoch = partition.leader_epoch
            if trouble == "no leader":
                partition.leader_epoch = NO_EPOCH
            else:
                partition.has_min_isr = False
            assert await send(0) == code
            partition.leader_epoch, partition.has_min_isr = epoch, True
            assert await send(1) == "not_leader_or_follower"
            assert [await send(sequence) for sequence in (0, 1)] == ["none"] * 2
            overtaking = await send(5, producer_id=8)
            assert overtaking == "not_leader_or_follower", "it may have sent another before"
            monkeypatch.setattr(refusals, "ALIKE_S", 0.0)
            assert await send(5, producer_id=8) == "none", "it was known, and is forgotten"

    kit.run(scenario)


def test_a_producer_begins_at_0_in_the_first_seconds_of_a_partition(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent while the partition was not here yet was refused."""

    async def scenario() -> None:
        async with kit.running() as client:
            send = partial(numbered, kit, client)

            await client.create("orders")
            assert await send("orders", 1) == "not_leader_or_follower"
            await client.create("others")
            assert await send("others", 1) == "not_leader_or_follower"
            assert [await send("others", sequence) for sequence in (0, 1)] == ["none"] * 2
            assert await send("others", 3) == "not_leader_or_follower", "2 may be under way again"
            monkeypatch.setattr(refusals, "ALIKE_S", 0.0)
            assert await send("orders", 1) == "none", "the topic was created again"

    kit.run(scenario)


def test_a_producer_begins_at_0_in_the_first_seconds_of_a_leadership(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first batch is refused by the last leader. The next one comes here already."""

    async def scenario() -> None:
        async with kit.running() as client:
            send = partial(numbered, kit, client, "orders")

            await client.create("orders")
            (partition,) = kit.partitions("orders")
            with monkeypatch.context() as later:
                later.setattr(refusals, "ALIKE_S", 0.0)
                await client.produce("orders", kit.batch(b"of somebody else"))
            partition.resign()
            partition.lead(PartitionView(0, 1, partition.leader_epoch + 2, (1,), (1,)), 1)
            assert await send(1) == "not_leader_or_follower"
            assert [await send(sequence) for sequence in (0, 1)] == ["none"] * 2

    kit.run(scenario)


def test_producers_are_refused_before_the_disk_is_full(kit: "Kit") -> None:
    """The volume fills up by itself, and gets room again; nobody but time tells the broker."""

    async def refusal(client: "Client") -> ErrorCode:
        (answer,) = await client.produce("orders", kit.batch(b"x"))
        return ErrorCode(answer.error_code)

    async def scenario() -> None:
        async with kit.running(chiplog_disk_reserve_bytes="1000000") as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            assert await refusal(client) is OK
            kit.disk.usage_now = DiskUsage(10_000_000, 999_999)
            async with asyncio.timeout(5):
                while (code := await refusal(client)) is OK:
                    await client.metadata()
            assert code is ErrorCode.not_enough_replicas
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert code is OK
            assert records
            registry = kit.broker.exposition().registry
            assert registry.get_sample_value("chiplog_broker_disk_full") == 1
            assert registry.get_sample_value("chiplog_broker_disk_free_bytes") == 999_999
            assert kit.broker.health.liveness()[0]
            kit.disk.usage_now = DiskUsage(10_000_000, 2_000_000)
            async with asyncio.timeout(5):
                while await refusal(client) is not OK:
                    await client.metadata()
            async with asyncio.timeout(5):
                while registry.get_sample_value("chiplog_broker_disk_full"):
                    await client.metadata()

    kit.run(scenario)


def test_a_checkpoint_without_room_is_written_when_there_is(kit: "Kit") -> None:
    """The first record of a reign counts when its epoch is written down."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            kit.disk.replace_error = OSError(errno.ENOSPC, "no space left on device")
            sent = asyncio.create_task(client.produce("orders", kit.batch(b"a")))
            await asyncio.sleep(0.2)
            assert not sent.done()
            kit.disk.replace_error = None
            async with asyncio.timeout(10):
                (answer,) = await sent
            assert (answer.error_code, answer.base_offset) == (OK, 0)

    kit.run(scenario)


def test_a_topic_deleted_under_waiting_requests(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            producer, consumer = await kit.client(), await kit.client()
            await consumer.send(
                ApiKey.FETCH, consumer.fetch_request(topic_id, (0, 0), wait_ms=9000)
            )
            await asyncio.sleep(0.05)
            kit.disk.may_sync.clear()
            await producer.send(ApiKey.PRODUCE, producer.produce_request("orders", kit.batch(b"a")))
            await asyncio.sleep(0.05)
            deleting = asyncio.ensure_future(client.delete("orders"))
            (answer,) = (await producer.receive()).responses[0].partition_responses
            assert answer.error_code == ErrorCode.not_leader_or_follower
            (found,) = (await consumer.receive()).responses[0].partitions
            assert found.error_code == ErrorCode.unknown_topic_id
            kit.disk.may_sync.set()
            assert await deleting is OK
            # The same name at once is another topic, which begins at 0.
            assert await client.create("orders") is OK
            assert await client.topic_id("orders") != topic_id
            (answer,) = await client.produce("orders", kit.batch(b"b"))
            assert (answer.error_code, answer.base_offset) == (OK, 0)
            assert await client.fetch(topic_id, (0, 0)) == [(ErrorCode.unknown_topic_id, b"")]

    kit.run(scenario)


@pytest.mark.parametrize("acks", [0, 7])
def test_acks_0_is_not_answered_and_other_numbers_are_refused(kit: "Kit", acks: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            if acks == 0:
                request = client.produce_request("orders", kit.batch(b"a"), acks=0)
                await client.send(ApiKey.PRODUCE, request)
                assert await nothing_comes(client)
                client._sent.clear()
                topic_id = await client.topic_id("orders")
                ((_, records),) = await client.fetch(topic_id, (0, 0), wait_ms=5000)
                assert records
                await client.send(
                    ApiKey.PRODUCE, client.produce_request("nowhere", kit.batch(b"a"), acks=0)
                )
                assert await client.is_closed()
            else:
                refused = await client.produce("orders", kit.batch(b"a"), acks=acks)
                assert codes(refused) == [ErrorCode.invalid_required_acks]

    kit.run(scenario)


def test_shutdown_answers_what_waits_for_the_disk(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            consumer = await kit.client()
            await consumer.send(
                ApiKey.FETCH,
                consumer.fetch_request(topic_id, (0, 0), wait_ms=60_000, min_bytes=999),
            )
            kit.disk.may_sync.clear()
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", kit.batch(b"a")))
            await asyncio.sleep(0.05)
            stopping = asyncio.ensure_future(kit.broker.stop())
            assert await consumer.is_closed()
            kit.disk.may_sync.set()
            (answer,) = (await client.receive()).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (OK, 0)
            assert await client.is_closed()
            await stopping
            assert (kit.directory / "data" / ".kafka_cleanshutdown").exists()
        async with kit.running() as client:
            topic_id = await client.topic_id("orders")
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert code is OK
            assert records

    kit.run(scenario)


def test_a_stricter_durability_syncs_what_is_there(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", chiplog_durability="PageCache")
            await client.produce("orders", kit.batch(b"a"))
            before = kit.disk.syncs
            await client.produce("orders", kit.batch(b"b"))
            assert kit.disk.syncs == before
            assert await client.alter("orders", ("chiplog.durability", 0, "Fsync")) == (OK, "")
            assert kit.disk.syncs > before

    kit.run(scenario)
