"""Appends group records to a partition of `__consumer_offsets`, and knows the state of its log."""

import logging
from collections.abc import Callable, Sequence

from chiplog_broker.coordinator.errors import refusal_to_group_error
from chiplog_broker.coordinator.holding import Safety, call_when_safe, until_safe
from chiplog_broker.coordinator.loading import load
from chiplog_broker.coordinator.read_barrier import MARKS, ReadBarrier
from chiplog_broker.groups.batches import read_mark, to_batches
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.verification import Verification
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.writer import NOT_IDEMPOTENT, NewRecord, Producer

logger = logging.getLogger(__name__)

OK = ErrorCode.none
LOG_INTERVAL_MS = 10_000
"""A partition that refuses records refuses those of all groups: one log line in this time."""


class GroupLog:
    """The log of one partition of `__consumer_offsets`, in one leader epoch.

    `state` is the result of all records up to the log end. `safety` delays answers until records
    are safe: below the high watermark, so that every later coordinator has them.
    """

    def __init__(
        self, partition: Partition, now_ms: Callable[[], int], ticks_ms: Callable[[], int]
    ) -> None:
        """The partition must be led here: records are appended in its present leader epoch only."""
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.state = GroupsState()
        self.safety = Safety(partition)
        self._now_ms = now_ms
        self._ticks_ms = ticks_ms
        self._barrier = ReadBarrier(
            partition, self.safety, lambda: self.append(MARKS, lambda: [read_mark(self._now_ms())])
        )
        self._logged_ms = -LOG_INTERVAL_MS

    def check(self) -> None:
        """Raises `PartitionError` if the leader epoch of this object has ended, or the disk has
        failed."""
        self.partition.check_epoch(self.epoch)

    async def load(self) -> None:
        """Read the log, and wait until all of it is below the high watermark. Raises
        `PartitionError` if the leader epoch ends, `RecordsError` and `StorageError`.
        """
        end_offset = self.partition.log.end_offset
        self.state = await load(self.partition, GroupsState)
        await until_safe(self.partition, end_offset, self.check)

    def append(
        self,
        group_id: str,
        make: Callable[[], Sequence[NewRecord]],
        *,
        whole: bool = False,
        producer: Producer = NOT_IDEMPOTENT,
        verification: Verification | None = None,
    ) -> ErrorCode:
        """Append records about a group and apply them to the state; returns `none` if all are in
        the log. `make` returns the records; its errors are returned as codes, too. With a
        `producer` the records are part of its transaction, and refused if its epoch is an old one.
        If they are its first ones here, they are refused without a `verification`.

        If records take several batches, the first ones may be in the log although an error is
        returned. With `whole`, records that do not fit into one batch are refused with
        `invalid_commit_offset_size`.
        """
        try:
            self.check()
            most_bytes = self.partition.log.config.max_message_bytes
            batches = to_batches(make(), most_bytes, producer)
            if whole and len(batches) > 1:
                raise BatchTooLargeError(
                    f"the records need {len(batches)} batches and must fit into one"
                )
            for batch in batches:
                # `acks_all` means acks=all; the records have keys, as compaction needs them.
                appended = self.partition.append(
                    memoryview(batch),
                    self._now_ms(),
                    acks_all=True,
                    keys_are_checked=True,
                    is_of_coordinator=producer is not NOT_IDEMPOTENT,
                    verification=verification,
                )
                self.state.apply(batch)
                self.safety.appended(group_id, appended.last_offset + 1)
        except (PartitionError, *REFUSALS) as refused:
            self._log_refused(group_id, str(refused))
            return refusal_to_group_error(refused)
        return OK

    def append_for(
        self,
        respond: OnSafe,
        group_id: str,
        make: Callable[[], Sequence[NewRecord]],
        producer: Producer = NOT_IDEMPOTENT,
        verification: Verification | None = None,
    ) -> ErrorCode:
        """Append the records about a group that `make` returns, as `append` does. Returns `none` if
        they are in the log, else an error. Calls `respond` with `none` once the high watermark has
        passed all of them, or at once with the error."""
        code = self.append(group_id, make, producer=producer, verification=verification)
        if code is OK:
            self.safety.call_when_safe(group_id, respond)
        else:
            respond(code)
        return code

    def append_marker(self, marker: Marker, respond: OnSafe) -> None:
        """Append the marker that ends a producer's transaction, and apply it: with a commit, the
        offsets of the transaction count from now on. Calls `respond` with `none` once the high
        watermark has passed it, or with the error for which it was refused or may be lost."""
        groups = self.state.groups_in_transaction(marker.producer_id)
        try:
            self.check()
            appended = self.partition.append_marker(marker, self._now_ms())
        except (PartitionError, *REFUSALS) as refused:
            self._log_refused(", ".join(sorted(groups)), str(refused))
            respond(code_of(refused))
            return
        end_offset = appended.last_offset + 1
        self.state.marker_appended(
            marker.producer_id, marker.producer_epoch, end_offset, is_commit=marker.is_commit
        )
        for group_id in groups or {MARKS}:
            self.safety.appended(group_id, end_offset)
        call_when_safe(self.partition, end_offset, respond)

    def when_current(self, respond: OnSafe, group_id: str) -> None:
        """As `ReadBarrier.when_current`, for the records of a group."""
        self._barrier.when_current(respond, group_id)

    def answer(self, respond: OnSafe, group_id: str, code: ErrorCode) -> None:
        """Calls `respond` with this code once the high watermark has passed the group's records so
        far, or with an error if that does not happen."""
        self.safety.call_when_safe(
            group_id, lambda failed: respond(code if failed is OK else failed)
        )

    def _log_refused(self, group_id: str, reason: str) -> None:
        """Log that a record was refused, at most once in `LOG_INTERVAL_MS`."""
        ticks_ms = self._ticks_ms()
        if ticks_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = ticks_ms
            logger.warning("group_record_refused", extra={"group": group_id, "reason": reason})
