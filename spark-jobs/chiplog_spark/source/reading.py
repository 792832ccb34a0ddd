"""Reading one split from the leader or from a given replica."""

import time
from collections.abc import Iterator

from chiplog_spark.source.columns import Unread
from chiplog_spark.source.options import Mode, Options
from chiplog_spark.source.ranges import lost_error
from chiplog_spark.source.splits import Split
from chiplog_spark.wire import errors
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import EARLIEST, RawBatch, batches_in
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
            for batch in _batches_from(client, split, offset, options.access.patience_ms / 1000):
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
    client: Client, split: Split, offset: int, patience_s: float
) -> Iterator[RawBatch]:
    """All batches with offsets from `offset` to the end of the split.

    Raises `ReplicaBehind` if the replica returns no further batch for `patience_s` seconds.
    """
    last_batch_s = time.monotonic()
    while offset < split.end:
        fetched = client.fetch(split.at, offset)
        for batch in batches_in(fetched.records, split.at, offset):
            if batch.base_offset >= split.end:
                return
            if batch.last_offset >= offset:
                yield batch
                offset = batch.last_offset + 1
                last_batch_s = time.monotonic()
        if time.monotonic() - last_batch_s > patience_s:
            raise behind(split.at.replica, offset, split.at.topic, split.at.partition)


def _log_start(client: Client, split: Split) -> int:
    """The present log start offset of the split's replica."""
    at = split.at
    topic = client.topic(at.topic)
    return client.offsets(topic, {at.partition: EARLIEST}, at.replica)[at.partition]
