"""Which batches of an answer belong to aborted transactions.

A broker does not remove them: with `READ_COMMITTED` an answer lists the producer and the first
offset of each aborted transaction, and the reader skips the batches of that producer from there to
the end marker, as Kafka's consumers do (KIP-98). The list of an answer is complete for its records,
so nothing has to be remembered from one answer to the next.
"""

from collections.abc import Iterable, Iterator

from chiplog_spark.wire.facts import Fetched, Place, RawBatch, batches_in
from chiplog_wire.protocol.messages import AbortedTransaction
from chiplog_wire.records.control import read_marker


class AbortedBatches:
    """Recognizes aborted batches; `is_aborted` must be called for every batch of an answer."""

    def __init__(self, listed: Iterable[AbortedTransaction]) -> None:
        # The one that begins first is the last: it is taken off first.
        self._coming = sorted(listed, key=lambda one: one.first_offset, reverse=True)
        self._producers: set[int] = set()
        """The producers whose transaction has begun and is aborted."""

    def is_aborted(self, batch: RawBatch) -> bool:
        """Whether the next batch has records of an aborted transaction. An end marker has none."""
        header = batch.header
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            self._producers.add(self._coming.pop().producer_id)
        if header.is_control:
            marker = read_marker(batch.data, header)
            if marker is not None and not marker.is_commit:
                self._producers.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._producers


def marked_batches(fetched: Fetched, at: Place, offset: int) -> Iterator[RawBatch]:
    """The batches of an answer to a fetch from `offset`, with `is_aborted` set if the fetch was
    `READ_COMMITTED`. Raises `DamagedBatch`."""
    found = batches_in(fetched.records, at, offset)
    if fetched.aborted is None:
        yield from found
        return
    aborted = AbortedBatches(fetched.aborted)
    for batch in found:
        yield RawBatch(batch.header, batch.data, aborted.is_aborted(batch))
