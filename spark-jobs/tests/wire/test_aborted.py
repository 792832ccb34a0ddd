"""Which batches of an answer are aborted, by what the broker lists."""

from uuid import UUID

from chiplog_spark.source.options import Options
from chiplog_spark.source.reading import batches_of_split
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.aborted import marked_batches
from chiplog_spark.wire.access import Access
from chiplog_spark.wire.facts import Fetched, Isolation, Place, RawBatch
from chiplog_wire.protocol.messages import AbortedTransaction
from chiplog_wire.records.control import EndMarker, build_marker
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

AT = Place("orders", UUID(int=1), 0)


def data(base: int, producer_id: int, count: int = 1, *, transactional: bool = True) -> bytes:
    options = BatchOptions(
        base_offset=base,
        producer=Producer(producer_id=producer_id, epoch=0, base_sequence=0),
        transactional=transactional,
    )
    return bytes(build_batch([NewRecord(b"x") for _ in range(count)], options))


def marker(base: int, producer_id: int, *, is_commit: bool) -> bytes:
    batch = build_marker(EndMarker(is_commit, 0), Producer(producer_id=producer_id, epoch=0), 1)
    batch[:8] = base.to_bytes(8, "big")
    return bytes(batch)


def aborted(offset: int, listed: list[tuple[int, int]], *batches: bytes) -> list[int]:
    """The base offsets of the batches that are aborted, in an answer to a fetch from `offset`."""
    transactions = [AbortedTransaction(producer, first) for producer, first in listed]
    fetched = Fetched(99, 99, 0, memoryview(b"".join(batches)), transactions)
    return [one.base_offset for one in marked_batches(fetched, AT, offset) if one.is_aborted]


def test_batches_are_aborted_up_to_the_marker_of_their_producer() -> None:
    batches = (
        data(0, 7),
        data(1, 8),
        data(2, 7, transactional=False),
        marker(3, 8, is_commit=True),
        data(4, 7),
        marker(5, 7, is_commit=False),
        data(6, 7),
    )
    assert aborted(0, [(7, 0)], *batches) == [0, 4]
    assert aborted(0, [], *batches) == []


def test_a_transaction_may_have_begun_before_the_answer() -> None:
    assert aborted(4, [(7, 0)], data(4, 7), marker(5, 7, is_commit=False)) == [4]


def test_transactions_of_one_producer_and_the_order_of_the_list_do_not_matter() -> None:
    batches = (
        data(0, 7),
        marker(1, 7, is_commit=False),
        data(2, 7),
        marker(3, 7, is_commit=True),
        data(4, 7, 3),
        marker(7, 7, is_commit=False),
    )
    assert aborted(0, [(7, 4), (7, 0)], *batches) == [0, 4]


class Compacted:
    """Answers fetches of a log whose last batches below the last stable offset are removed."""

    last_stable_offset, high_watermark = 5, 8

    def __init__(self) -> None:
        self.levels: list[Isolation] = []

    def fetch(self, _at: Place, offset: int, *, isolation: Isolation) -> Fetched:
        self.levels.append(isolation)
        committed = isolation is Isolation.READ_COMMITTED
        found = b"" if committed and offset > 2 else data(0, 7, 3) if offset < 3 else data(5, 8, 3)
        return Fetched(self.high_watermark, self.last_stable_offset, 0, memoryview(found))


def test_a_range_whose_last_batches_are_compacted_ends_at_the_last_stable_offset() -> None:
    client = Compacted()
    split = Split(AT, 0, 5, begins_range=True)
    options = Options(access=Access((("one", 1),)), topic="orders")
    batches = batches_of_split(client, split, options)  # type: ignore[arg-type]
    found = [batch for batch in batches if isinstance(batch, RawBatch)]
    assert [(batch.base_offset, batch.last_offset) for batch in found] == [(0, 2)]
    assert client.levels == [
        Isolation.READ_COMMITTED,
        Isolation.READ_COMMITTED,
        Isolation.READ_UNCOMMITTED,
    ]
