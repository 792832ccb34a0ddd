"""Readers of transactions with both isolation levels, and clients that ask for last stable offsets
and for offsets that were committed in transactions."""

from itertools import cycle
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position

from e2e.chaos.committed import ASK_LIMIT_S, asker
from e2e.chaos.group_history import NOTHING_COMMITTED
from e2e.chaos.ledger import Ledger, name_of
from e2e.chaos.readers import (
    ASK_EVERY_S,
    EndAsker,
    KafkaPythonReader,
    LibrdkafkaReader,
    Reader,
)
from e2e.chaos.transactors import END_OF_NAME
from e2e.sim.transactions.history import CommittedOffset, Piece, Stable, TransactionHistory
from e2e.transactions.client import Isolation

NOT_SHOWN = -1


class UncommittedReader(LibrdkafkaReader):
    """Reads also what is aborted, or not decided yet."""

    name: ClassVar[str] = "librdkafka-uncommitted"
    isolation: ClassVar[Isolation] = Isolation.UNCOMMITTED


class CommittedReader(Reader):
    """The part of a reader of committed records that notes what it got."""

    def __init__(self, bootstrap: str, ledger: Ledger, history: TransactionHistory) -> None:
        super().__init__(bootstrap, ledger)
        self.history = history

    def has_read(self, partition: int, value: bytes | None, offset: int) -> None:
        """Note one record; the offsets between it and the one before were passed over."""
        self.note(partition, offset + 1, ((offset, name_of(value)),))

    def note(self, partition: int, to_offset: int, records: tuple[tuple[int, str], ...]) -> None:
        """Note all that it got up to this offset. It may also be called after the reader ended, for
        the offsets up to the partition's end, at which it got nothing."""
        piece = Piece(
            at_s=self.ledger.now_s(),
            reader=self.name,
            partition=self.ledger.labels[partition],
            from_offset=self.read_up_to[partition],
            to_offset=to_offset,
            records=records,
            stable=NOT_SHOWN,
            high_watermark=NOT_SHOWN,
        )
        self.history.pieces.append(piece)
        self.read_up_to[partition] = to_offset


class CommittedLibrdkafkaReader(CommittedReader, LibrdkafkaReader):
    name: ClassVar[str] = "librdkafka-committed"
    isolation: ClassVar[Isolation] = Isolation.COMMITTED


class CommittedKafkaPythonReader(CommittedReader, KafkaPythonReader):
    name: ClassVar[str] = "kafka-python-committed"
    isolation: ClassVar[Isolation] = Isolation.COMMITTED


class StableAsker(EndAsker):
    """Asks for last stable offsets: they are where partitions end for its isolation level."""

    name: ClassVar[str] = "stable-asker"

    def __init__(self, bootstrap: str, ledger: Ledger, history: TransactionHistory) -> None:
        super().__init__(bootstrap, ledger)
        self.history = history

    def found(self, partition: int, end: int) -> None:
        label = self.ledger.labels[partition]
        self.history.stables.append(Stable(self.ledger.now_s(), self.name, label, end))


class OffsetAsker(Reader):
    """Asks for the committed offset of one group after the other, as it is once no transaction may
    change it any more. The groups have the names of transactional ids."""

    name: ClassVar[str] = "offset-asker"

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        history: TransactionHistory,
        transactional_ids: tuple[str, ...],
    ) -> None:
        super().__init__(bootstrap, ledger)
        self.history, self.transactional_ids = history, transactional_ids
        self.read_up_to = {}  # it reads nothing

    def open(self) -> None:
        self.askers = {one: asker(self.bootstrap, one) for one in self.transactional_ids}
        self.turns = cycle(self.askers)

    def poll(self) -> None:
        self.ask(next(self.turns))
        self.ending.wait(ASK_EVERY_S)

    def ask(self, transactional_id: str) -> CommittedOffset | None:
        """Ask once, and note the answer; None without one."""
        asked_s = self.ledger.now_s()
        where = Position(self.ledger.topic, 0)
        try:
            (found,) = self.askers[transactional_id].committed([where], timeout=ASK_LIMIT_S)
        except (KafkaException, UnicodeDecodeError, SystemError) as refused:
            # The last two if what is behind the metadata in its memory is no text.
            self.ledger.disturbances.append(f"{self.name}: {refused!r}")
            return None
        if found.error is not None:
            return None
        # librdkafka answers -1001 where nothing is committed.
        offset = max(found.offset, NOTHING_COMMITTED)
        name = name_in_metadata(found)
        noted = CommittedOffset(asked_s, self.ledger.now_s(), transactional_id, offset, name)
        self.history.offsets.append(noted)
        return noted

    def close(self) -> None:
        for one in self.askers.values():
            one.close()


def name_in_metadata(committed: Position) -> str:
    """The name that the metadata of a committed offset begins with; empty if there is none.

    confluent-kafka returns what is behind the metadata in its memory, too, which may be no text.
    """
    try:
        text = committed.metadata or ""
    except UnicodeDecodeError as no_text:
        text = no_text.object.decode(errors="replace")
    return text.partition(END_OF_NAME)[0]
