"""Reading one split from the leader or from a given replica."""

import time
from collections.abc import Iterator

from chiplog_spark.source.columns import Unread
from chiplog_spark.source.options import Mode, Options
from chiplog_spark.source.ranges import lost_error
from chiplog_spark.source.splits import Split
from chiplog_spark.wire import errors
from chiplog_spark.wire.aborted import marked_batches
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import EARLIEST, Fetched, Isolation, RawBatch, batches_in
from chiplog_spark.wire.verdicts import LEADER, behind


def batches_of_split(client: Client, split: Split, options: Options) -> Iterator[RawBatch | Unread]:
    """The batches of a split, in the order of their offsets. Raises `WireError`.

    If a given replica is read batch by batch, offsets that its broker cannot return do not raise an
    error: an `Unread` takes their place.
    """
    reads_one_replica = options.mode is Mode.BATCHES and options.replica != LEADER
    offset = split.start
    while offset < split.end:
        try:
            for batch in _batches_from(client, split, offset, options):
                yield batch
                offset = batch.last_offset + 1
            return
        except errors.OffsetOutOfRange as gone:
            # Either the records were deleted, or the offset is above the end of the log.
            log_start = _log_start(client, split)
            if log_start <= offset or (options.fails_on_data_loss and not reads_one_replica):
                at = split.at
                if log_start > offset:
                    raise lost_error(offset, log_start, at.topic, at.partition) from gone
                raise
            next_offset = min(log_start, split.end)
            if reads_one_replica:
                at = split.at
                why = lost_error(offset, log_start, at.topic, at.partition)
                yield Unread(offset, next_offset - 1, why)
            offset = next_offset
        except WireError as error:
            if not reads_one_replica:
                raise
            yield Unread(offset, split.end - 1, error)
            return


def _batches_from(
    client: Client, split: Split, offset: int, options: Options
) -> Iterator[RawBatch]:
    """All batches with offsets from `offset` to the end of the split; those of aborted transactions
    are marked.

    Raises `ReplicaBehind` if the replica returns no further batch for `patience_ms`.
    """
    patience_s = options.access.patience_ms / 1000
    last_batch_s = time.monotonic()
    while offset < split.end:
        fetched = _fetched(client, split, offset, options)
        if not fetched.records and _is_empty_until(client, split, offset, fetched):
            return
        for batch in marked_batches(fetched, split.at, offset):
            if batch.base_offset >= split.end:
                return
            if batch.last_offset >= offset:
                yield batch
                offset = batch.last_offset + 1
                last_batch_s = time.monotonic()
        if time.monotonic() - last_batch_s > patience_s:
            raise behind(split.at.replica, offset, split.at.topic, split.at.partition)


def _fetched(client: Client, split: Split, offset: int, options: Options) -> Fetched:
    """An answer to a fetch from `offset`."""
    if offset < options.marked_below:
        fetched = client.fetch(split.at, offset, isolation=Isolation.READ_COMMITTED)
        # If the last stable offset is lower than expected, the batches are read without marks.
        if fetched.records or options.isolation is Isolation.READ_COMMITTED:
            return fetched
    return client.fetch(split.at, offset, isolation=options.isolation)


def _is_empty_until(client: Client, split: Split, offset: int, fetched: Fetched) -> bool:
    """Whether there is no batch from `offset` to the end of the split, which ends at the last
    stable offset: compaction may have removed the last ones before it.

    `fetched` is an answer without records. Then only an open transaction can follow, and the batch
    with which it begins shows it.
    """
    if not split.end <= fetched.last_stable_offset < fetched.high_watermark:
        return False
    beyond = client.fetch(split.at, offset, isolation=Isolation.READ_UNCOMMITTED)
    first = next(batches_in(beyond.records, split.at, offset), None)
    return first is not None and first.base_offset >= split.end


def _log_start(client: Client, split: Split) -> int:
    """The present log start offset of the split's replica."""
    at = split.at
    topic = client.topic(at.topic)
    return client.offsets(topic, {at.partition: EARLIEST}, at.replica)[at.partition]
