"""A leader refuses the batches of one producer, and others go on."""

from typing import TYPE_CHECKING

import pytest

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.partitions.errors import PartitionError, code_of
from chiplog_broker.partitions.gaps import DOUBT_S
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.refusals import ALIKE_S
from chiplog_broker.storage.errors import DiskFullError, StorageError
from chiplog_broker.storage.free_space import FreeSpace
from chiplog_broker.storage.producers import MOST_REFUSED, REMEMBERED_S
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.writer import Producer
from tests.storage.follower import replica_of

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

EPOCH_AT = 51
"""Where in a batch the producer epoch begins."""


class Leader:
    """A leader, and a clock that goes on by hand."""

    def __init__(self, kit: "StorageKit", make_batch: "MakeBatch") -> None:
        self._kit, self._make = kit, make_batch
        self.replica: Partition

    async def begin(self, replicas: tuple[int, ...] = (1,)) -> None:
        """Lead; the first seconds of the leadership are over."""
        _, log = await self._kit.new_log()
        self.replica = replica_of(log, self._kit.clock)
        self.replica.lead(PartitionView(0, 1, 1, replicas, replicas), 1)
        self.wait(ALIKE_S)

    def send(
        self,
        sequence: int,
        producer_id: int = 7,
        *,
        epoch: int = 0,
        value: bytes = b"x",
        acks_all: bool = True,
        is_corrupt: bool = False,
        has_changed_epoch: bool = False,
    ) -> str:
        """The error code with which a batch was refused, or `none`."""
        producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
        batch = memoryview(bytearray(self._make([value], producer=producer)))
        batch[-1] ^= is_corrupt
        batch[EPOCH_AT] ^= has_changed_epoch
        try:
            self.replica.append(batch, self._kit.clock.now_ms(), acks_all=acks_all)
        except (PartitionError, RecordsError, StorageError) as refused:
            return code_of(refused).name
        return "none"

    def wait(self, seconds: float) -> None:
        self._kit.clock.time_ms += int(seconds * 1000)


@pytest.fixture
def leader(kit: "StorageKit", make_batch: "MakeBatch") -> Leader:
    return Leader(kit, make_batch)


def test_a_forgotten_producer_goes_on_while_the_disk_has_no_room_for_another(
    kit: "StorageKit", leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large batches of one producer do not fit, and are sent again and again."""

    async def scenario() -> None:
        await leader.begin()

        def for_producer(_: FreeSpace, size_bytes: int) -> None:
            if size_bytes > 1_000:
                raise DiskFullError("no room")

        monkeypatch.setattr(FreeSpace, "for_producer", for_producer)
        for second in range(60):
            assert leader.send(0, 8, value=bytes(2_000)) == "not_enough_replicas"
            assert leader.send(500 + second) == "none"
            leader.wait(1)

    kit.run(scenario())


def test_a_forgotten_producer_goes_on_while_another_waits_for_replicas(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        for second in range(60):
            assert leader.send(0, 8) == "not_enough_replicas"
            assert leader.send(500 + second, acks_all=False) == "none"
            leader.wait(1)

    kit.run(scenario())


def test_the_refused_producer_itself_begins_with_its_refused_batch(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        for _ in range(60):
            assert leader.send(0) == "not_enough_replicas"
            leader.wait(1)
        leader.replica.has_min_isr = True
        leader.wait(ALIKE_S)
        assert leader.send(1) == "not_leader_or_follower"
        assert [leader.send(sequence) for sequence in (0, 1)] == ["none"] * 2

    kit.run(scenario())


def test_refused_producers_are_forgotten_without_another_batch(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        assert leader.send(0) == "not_enough_replicas"
        leader.replica.forget_old_refusals()
        assert leader.replica._refusals
        leader.wait(REMEMBERED_S)
        leader.replica.forget_old_refusals()
        assert not leader.replica._refusals

    kit.run(scenario())


def test_the_parts_of_a_first_batch_that_was_too_large_are_stored_in_order(
    kit: "StorageKit", leader: Leader
) -> None:
    """Java's producer splits it, while its next batch is on its way already."""

    async def scenario() -> None:
        await leader.begin()
        too_large = bytes(kit.config.max_message_bytes)
        assert leader.send(0, value=too_large) == "message_too_large"
        assert leader.send(2) == "not_leader_or_follower"
        assert leader.send(0, producer_id=8) == "none"
        assert [leader.send(sequence) for sequence in (0, 1, 2)] == ["none"] * 3

    kit.run(scenario())


def test_a_gap_of_a_known_producer_is_not_answered_as_another_one_was(
    kit: "StorageKit", leader: Leader
) -> None:
    """It may begin a new epoch only when it hears of the gap."""

    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0) == "none"
        leader.replica.has_min_isr = False
        assert leader.send(0, producer_id=8) == "not_enough_replicas"
        assert leader.send(5, acks_all=False) == "out_of_order_sequence_number"
        assert leader.send(1) == "not_enough_replicas"
        assert leader.send(2, acks_all=False) == "not_enough_replicas"

    kit.run(scenario())


def test_a_first_batch_that_was_changed_on_its_way_is_not_overtaken(
    kit: "StorageKit", leader: Leader
) -> None:
    """Java's producer, librdkafka and Sarama send it again after CORRUPT_MESSAGE."""

    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0, is_corrupt=True) == "corrupt_message"
        assert leader.send(1) == "not_leader_or_follower"
        assert [leader.send(sequence) for sequence in (0, 1)] == ["none"] * 2

    kit.run(scenario())


def test_a_producer_whose_first_batch_was_given_up_goes_on_after_some_seconds(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0, value=bytes(kit.config.max_message_bytes)) == "message_too_large"
        leader.wait(ALIKE_S)
        assert leader.send(1) == "none"

    kit.run(scenario())


def test_batches_that_are_too_large_do_not_push_out_a_refused_producer(
    kit: "StorageKit", leader: Leader
) -> None:
    """A producer begins a new epoch after each batch that is too large for good."""

    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        assert leader.send(0) == "not_enough_replicas"
        leader.replica.has_min_isr = True
        too_large = bytes(kit.config.max_message_bytes)
        for epoch in range(MOST_REFUSED):
            assert leader.send(0, 8, epoch=epoch, value=too_large) == "message_too_large"
        assert leader.send(1) == "not_leader_or_follower"
        assert [leader.send(sequence) for sequence in (0, 1)] == ["none"] * 2

    kit.run(scenario())


def test_a_late_batch_of_a_known_producer_is_not_stored_beside_its_newer_epoch(
    kit: "StorageKit", leader: Leader
) -> None:
    """Its records are sent again in the newer epoch, so they would be stored twice."""

    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0) == "none"
        leader.replica.has_min_isr = False
        # The producer gave up sequence 1 of epoch 0 and sends its record again, in epoch 1.
        assert leader.send(0, epoch=1, value=b"twice") == "not_enough_replicas"
        leader.replica.has_min_isr = True
        # From a connection that was given up.
        assert leader.send(1, epoch=0, value=b"twice") == "invalid_producer_epoch"
        assert leader.send(0, epoch=1, value=b"twice") == "none"
        assert leader.replica.log.end_offset == 2

    kit.run(scenario())


def test_a_changed_epoch_in_a_refused_batch_binds_nobody(kit: "StorageKit", leader: Leader) -> None:
    """The batch is refused for its checksum; the same batch, sent again, is not a late one."""

    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0, has_changed_epoch=True) == "corrupt_message"
        assert leader.send(0) == "none"

    kit.run(scenario())


def test_a_changed_epoch_in_a_refused_batch_does_not_let_the_second_batch_overtake(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0, has_changed_epoch=True) == "corrupt_message"
        leader.wait(ALIKE_S - 0.01)
        assert leader.send(0) == "none"
        leader.wait(0.02)
        assert [leader.send(sequence) for sequence in (1, 0)] == ["none"] * 2

    kit.run(scenario())


def test_a_changed_epoch_in_a_batch_that_was_refused_unchecked_binds_nobody(
    kit: "StorageKit", leader: Leader
) -> None:
    """`NOT_ENOUGH_REPLICAS` is answered before the checksum is verified."""

    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        assert leader.send(0, has_changed_epoch=True) == "not_enough_replicas"
        leader.replica.has_min_isr = True
        assert leader.send(0) == "none"

    kit.run(scenario())


def test_a_changed_epoch_does_not_replace_what_is_remembered(
    kit: "StorageKit", leader: Leader
) -> None:
    async def scenario() -> None:
        await leader.begin()
        leader.replica.has_min_isr = False
        assert leader.send(0) == "not_enough_replicas"
        assert leader.send(0, has_changed_epoch=True) == "not_enough_replicas"
        leader.replica.has_min_isr = True
        assert leader.send(1) == "not_leader_or_follower"
        assert [leader.send(sequence) for sequence in (0, 1)] == ["none"] * 2

    kit.run(scenario())


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_gap_is_not_held_against_a_producer_whose_batch_another_leader_may_have(
    kit: "StorageKit", leader: Leader, epoch: int
) -> None:
    """A producer that was at the next leader already, and comes back to this one, looks for the
    leader again. OUT_OF_ORDER_SEQUENCE_NUMBER would make kafka-python give up its records."""

    async def scenario() -> None:
        await leader.begin(replicas=(1, 2))
        assert leader.send(0) == "none"
        assert leader.send(2, epoch=epoch) == "not_leader_or_follower"
        leader.wait(DOUBT_S - 0.01)
        assert leader.send(2, epoch=epoch) == "not_leader_or_follower"
        leader.wait(0.01)
        assert leader.send(2, epoch=epoch) == "out_of_order_sequence_number", "it leads indeed"
        assert [leader.send(1), leader.send(2)] == ["none"] * 2
        assert leader.send(4) == "not_leader_or_follower", "this gap is another one"

    kit.run(scenario())


def test_a_leader_by_itself_knows_that_a_gap_is_real(kit: "StorageKit", leader: Leader) -> None:
    async def scenario() -> None:
        await leader.begin()
        assert leader.send(0) == "none"
        assert leader.send(2) == "out_of_order_sequence_number"

    kit.run(scenario())
