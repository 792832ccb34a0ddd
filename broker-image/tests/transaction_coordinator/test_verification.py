"""Leaders ask the coordinator before a transaction begins in a partition (KIP-890)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers import group_offsets, verified_produce
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.server.dispatch import LARGE_BODY_BYTES
from chiplog_broker.transaction_coordinator.verifying import Question, TransactionVerifier
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from chiplog_wire.records.writer import Producer as Sender
from tests.coordinator.groups_kit import make
from tests.transaction_coordinator.transactions_kit import OK, Producing, at_rest, running

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

ORDERS, OTHERS = At("orders", 0), At("orders", 1)
FIRST, SECOND = 11, 12
"""Versions of Produce: the last one of the first generation, and the first one of the second."""
ABORTABLE = ErrorCode.transaction_abortable
INVALID = ErrorCode.invalid_txn_state
RETRY = ErrorCode.not_enough_replicas


def batch_of(producer: Producer, sequence: int, value: bytes = b"value") -> bytes:
    sender = Sender(producer_id=producer.producer_id, epoch=producer.epoch, base_sequence=sequence)
    record = NewRecord(value, timestamp_ms=SystemClock().now_ms())
    return bytes(build_batch([record], BatchOptions(producer=sender, transactional=True)))


async def produce(
    client: "Client",
    producer: Producer,
    sequence: int,
    *partitions: At,
    version: int = FIRST,
    transactional_id: str | None = "t",
    others: dict[At, Producer] | None = None,
) -> list[ErrorCode]:
    """Produce a batch to each partition with one request; the code of each. `others` are the
    producers of batches that are not of this one."""
    types = client.types(ApiKey.PRODUCE, version)
    request = client.produce_request("orders")
    request = types.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout=request.timeout,
        topic_data=(
            types.TopicProduceData(
                name="orders",
                partition_data=tuple(
                    types.PartitionProduceData(
                        index=at.partition,
                        records=batch_of((others or {}).get(at, producer), sequence),
                    )
                    for at in partitions or (ORDERS,)
                ),
            ),
        ),
    )
    answer = await client.ask(ApiKey.PRODUCE, request, version)
    return [ErrorCode(one.error_code) for one in answer.responses[0].partition_responses]


def end_offset(kit: "Kit", index: int = 0) -> int:
    return kit.broker._replicas.leader("orders", index).log.end_offset


@dataclass
class Asked:
    """What was asked of coordinators."""

    questions: list[Question] = field(default_factory=list)
    instead: list[ErrorCode] = field(default_factory=list)
    """Answers in place of the coordinator's, for the next questions."""
    then: Callable[[], None] | None = None
    """Called after the coordinator's answer, before the leader has it."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Notes what is asked."""
    noted, ask = Asked(), TransactionVerifier.ask

    async def note(verifier: TransactionVerifier, question: Question) -> Any:
        noted.questions.append(question)
        if noted.instead:
            return dict.fromkeys(question.partitions, noted.instead.pop(0))
        codes = await ask(verifier, question)
        if noted.then is not None:
            noted.then()
        return codes

    monkeypatch.setattr(TransactionVerifier, "ask", note)
    return noted


def test_the_first_generation_adds_partitions_first(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client)
            producer = await producing.ready()
            # Clients of old versions do not know the newer code.
            for version, code in ((FIRST, ABORTABLE), (10, INVALID), (3, INVALID)):
                assert await produce(client, producer, 0, version=version) == [code]
            assert end_offset(kit) == 0
            await producing.add(producer, ORDERS)
            assert await produce(client, producer, 0, ORDERS, OTHERS) == [OK, ABORTABLE]
            assert all(not one.adds for one in asked.questions)
            # In an open transaction nothing is asked any more.
            asked.questions.clear()
            assert await produce(client, producer, 1) == [OK]
            assert asked.questions == []
            # A batch that arrives after the end would begin a transaction that nobody ends.
            assert (await producing.end(producer))[0] is OK
            await at_rest(kit)
            assert await produce(client, producer, 2) == [ABORTABLE]
            assert end_offset(kit) == 3
            assert kit.broker._replicas.leader("orders", 0).last_stable_offset == 3
            # The next transaction continues with this sequence number.
            await producing.add(producer, ORDERS)
            assert await produce(client, producer, 2) == [OK]

    kit.run(scenario)


def test_the_second_generation_adds_partitions_by_producing(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client, version=5)
            producer = await producing.ready()
            codes = await produce(client, producer, 0, ORDERS, OTHERS, version=SECOND)
            assert codes == [OK, OK]
            (question,) = asked.questions
            assert question == Question("t", producer, frozenset({ORDERS, OTHERS}), adds=True)
            code, continued = await producing.end(producer)
            assert (code, continued) == (OK, Producer(producer.producer_id, producer.epoch + 1))
            assert continued is not None
            # At once: its markers may not be written yet.
            assert await produce(client, continued, 0, version=SECOND) == [OK]
            # A late batch of the transaction before.
            late = await produce(client, producer, 1, OTHERS, version=SECOND)
            assert late == [ErrorCode.invalid_producer_epoch]
            assert (await producing.end(continued, commit=False))[0] is OK
            await at_rest(kit)
            assert [end_offset(kit, index) for index in (0, 1)] == [4, 2]

    kit.run(scenario)


def test_what_no_coordinator_is_asked_about(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producer = await Producing(client).ready()
            denied = [ErrorCode.transactional_id_authorization_failed]
            for transactional_id in (None, ""):
                codes = await produce(client, producer, 0, transactional_id=transactional_id)
                assert codes == denied
            # Records outside transactions, and a batch that is refused for another reason.
            (plain,) = await client.produce("orders", batch_without_transaction())
            assert plain.error_code == OK
            absent = At("orders", 9)
            codes = await produce(client, producer, 0, absent)
            assert codes == [ErrorCode.unknown_topic_or_partition]
            assert asked.questions == []

    kit.run(scenario)


def batch_without_transaction() -> bytes:
    record = NewRecord(b"value", timestamp_ms=SystemClock().now_ms())
    return bytes(
        build_batch(
            [record], BatchOptions(producer=Sender(producer_id=5, epoch=0, base_sequence=0))
        )
    )


def test_producers_that_are_not_the_present_one(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client)
            first = await producing.ready()
            second = await producing.ready()
            for version in (FIRST, SECOND):
                fenced = await produce(client, first, 0, version=version)
                assert fenced == [ErrorCode.invalid_producer_epoch]
                stranger = Producer(second.producer_id + 1, 0)
                unknown = await produce(client, stranger, 0, version=version)
                assert unknown == [ErrorCode.invalid_producer_id_mapping]
            assert end_offset(kit) == 0

    kit.run(scenario)


@pytest.mark.parametrize("version", [FIRST, SECOND])
def test_a_coordinator_that_cannot_answer(kit: "Kit", asked: Asked, version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            asked.instead = [ErrorCode.not_coordinator, ErrorCode.concurrent_transactions]
            busy = RETRY if version == FIRST else ErrorCode.concurrent_transactions
            assert await produce(client, producer, 0, version=version) == [RETRY]
            assert await produce(client, producer, 0, version=version) == [busy]
            # The next batch, which the client has sent already, must not be stored before it.
            assert await produce(client, producer, 1, version=version) == [
                ErrorCode.not_leader_or_follower
            ]
            assert end_offset(kit) == 0
            assert await produce(client, producer, 0, version=version) == [OK]
            assert await produce(client, producer, 1, version=version) == [OK]

    kit.run(scenario)


def abort_of(producer: Producer) -> Marker:
    """The marker that aborts the producer's transaction."""
    return Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_commit=False,
        coordinator_epoch=0,
    )


def test_a_marker_overtakes_the_answer(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            partition = kit.broker._replicas.leader("orders", 0)

            def end() -> None:
                partition.append_marker(abort_of(producer), SystemClock().now_ms())

            # The answer is about a transaction that the marker has ended: it is asked again.
            asked.then = end
            assert await produce(client, producer, 0) == [RETRY]
            assert len(asked.questions) == 3
            assert not partition.log.has_open_transaction(*producer)
            asked.then = None
            assert await produce(client, producer, 0) == [OK]
            assert len(partition.verifications) == 0

    kit.run(scenario)


def test_markers_in_many_partitions_take_one_more_question(kit: "Kit", asked: Asked) -> None:
    """Usual between two transactions with the same partitions."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client)
            producer = await producing.ready()
            await producing.add(producer, ORDERS, OTHERS)

            def end() -> None:
                for index in (0, 1):
                    partition = kit.broker._replicas.leader("orders", index)
                    partition.append_marker(abort_of(producer), 1)
                asked.then = None

            asked.then = end
            assert await produce(client, producer, 0, ORDERS, OTHERS) == [OK, OK]
            assert [one.partitions for one in asked.questions] == [{ORDERS, OTHERS}] * 2
            for index in (0, 1):
                assert len(kit.broker._replicas.leader("orders", index).verifications) == 0

    kit.run(scenario)


def test_a_request_is_of_one_producer(kit: "Kit", asked: Asked) -> None:
    """As in Kafka. Each other one would be a question of its own."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 3)
            producing = Producing(client)
            producer = await producing.ready()
            third = At("orders", 2)
            await producing.add(producer, ORDERS, OTHERS, third)
            odd = {OTHERS: Producer(producer.producer_id, producer.epoch + 1)}
            found = await produce(client, producer, 0, ORDERS, OTHERS, third, others=odd)
            assert found == [OK, ErrorCode.invalid_producer_id_mapping, OK]
            assert [one.partitions for one in asked.questions] == [{ORDERS, third}]

    kit.run(scenario)


def test_questions_have_a_limit(kit: "Kit", asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_produce, "MAX_LATER", 2)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 4)
            producing = Producing(client, version=5)
            producer = await producing.ready()
            four = [At("orders", index) for index in range(4)]
            assert await produce(client, producer, 0, *four, version=SECOND) == [OK] * 4
            assert [one.partitions for one in asked.questions] == [set(four[:3]), set(four[3:])]

    kit.run(scenario)


async def commit_offset(
    client: "Client", producer: Producer, version: int, metadata: str = "", partitions: int = 1
) -> ErrorCode:
    """Commit an offset in a transaction, with TxnOffsetCommit of this version. `metadata` makes the
    request larger, and so does committing it for several `partitions`."""
    (code,) = await commit_offsets(
        client, producer, version, "orders", metadata=metadata, partitions=partitions
    )
    return code


async def commit_offsets(
    client: "Client",
    producer: Producer,
    version: int,
    *topics: str,
    metadata: str = "",
    partitions: int = 1,
) -> list[ErrorCode]:
    """Commit offsets of each topic in a transaction. Returns a code of each, in the same order."""
    types = client.types(ApiKey.TXN_OFFSET_COMMIT, version)
    offsets = tuple(
        make(
            types.TxnOffsetCommitRequestPartition,
            partition_index=index,
            committed_offset=5,
            committed_leader_epoch=-1,
            committed_metadata=metadata,
        )
        for index in range(partitions)
    )
    request = make(
        types.TxnOffsetCommitRequest,
        transactional_id="t",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(
            types.TxnOffsetCommitRequestTopic(name=name, partitions=offsets) for name in topics
        ),
    )
    answer = await client.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)
    found = {topic.name: {one.error_code for one in topic.partitions} for topic in answer.topics}
    return [ErrorCode(code) for name in topics for code in found[name]]


def test_offsets_of_the_first_generation(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            assert await commit_offset(client, producer, 4) is ABORTABLE
            assert await commit_offset(client, producer, 3) is INVALID
            await producing.add_offsets(producer)
            asked.instead = [ErrorCode.concurrent_transactions]
            loading = ErrorCode.coordinator_load_in_progress
            assert await commit_offset(client, producer, 3) is loading
            assert await commit_offset(client, producer, 3) is OK
            asked.questions.clear()
            assert await commit_offset(client, producer, 3) is OK
            assert asked.questions == []
            assert (await producing.end(producer))[0] is OK
            await at_rest(kit)
            assert await commit_offset(client, producer, 3) is INVALID

    kit.run(scenario)


def test_offsets_of_no_topic_are_refused_as_such_whatever_the_coordinator_says(
    kit: "Kit", asked: Asked
) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            stranger, unknown = Producer(1 << 40, 0), ErrorCode.unknown_topic_or_partition
            for version in (3, 5):
                codes = await commit_offsets(client, stranger, version, "orders", "absent")
                assert codes == [ErrorCode.invalid_producer_id_mapping, unknown]
            assert len(asked.questions) == 2

    kit.run(scenario)


def test_offsets_of_the_second_generation(kit: "Kit", asked: Asked) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=5)
            producer = await producing.ready()
            assert await commit_offset(client, producer, 5) is OK
            assert [one.adds for one in asked.questions] == [True]
            code, continued = await producing.end(producer)
            assert code is OK
            assert continued is not None
            await at_rest(kit)
            shard = kit.broker._coordinator.shard("g")
            assert [one.offset for one in shard.offsets("g").values()] == [5]
            late = await commit_offset(client, producer, 5)
            assert late is ErrorCode.invalid_producer_epoch
            # A marker between the answer and the append.
            partition = shard.partition
            asked.then = lambda: partition.verifications.marker_appended(producer.producer_id)
            assert await commit_offset(client, continued, 5) is (
                ErrorCode.coordinator_not_available
            )
            asked.then = None
            assert await commit_offset(client, continued, 5) is OK
            assert len(partition.verifications) == 0

    kit.run(scenario)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("unsliced", [10, 9])
def test_offsets_in_a_large_request(
    kit: "Kit", asked: Asked, monkeypatch: pytest.MonkeyPatch, version: int, unsliced: int
) -> None:
    """It is decoded in another thread, and may be handled in slices."""
    monkeypatch.setattr(group_offsets, "MAX_UNSLICED_PARTITIONS", unsliced)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 10)
            producing = Producing(client, version=version)
            producer = await producing.ready()
            await producing.add_offsets(producer)
            metadata = "x" * (LARGE_BODY_BYTES // 10)
            for _ in range(2):
                assert await commit_offset(client, producer, version, metadata, 10) is OK
            assert len(asked.questions) == 1
            assert (await producing.end(producer))[0] is OK
            await at_rest(kit)
            shard = kit.broker._coordinator.shard("g")
            assert len(shard.offsets("g")) == 10

    kit.run(scenario)
