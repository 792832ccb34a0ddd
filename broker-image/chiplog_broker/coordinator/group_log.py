"""Appends group records to a partition of `__consumer_offsets`, and knows the state of its log."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from chiplog_broker.coordinator.errors import refusal_to_group_error
from chiplog_broker.coordinator.holding import Safety, call_when_safe, outcome
from chiplog_broker.coordinator.loading import load
from chiplog_broker.groups.batches import read_mark, to_batches
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.errors import REFUSALS, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.writer import NewRecord

logger = logging.getLogger(__name__)

OK = ErrorCode.none
MARKS = ""
"""In place of a group id, for the records of `_append_read_mark`, which belong to no group."""
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
        self._awaiting_mark: list[OnSafe] = []
        """The callbacks of `when_current` for which a record is appended next."""
        self._logged_ms = -LOG_INTERVAL_MS

    def check(self) -> None:
        """Raises `PartitionError` if the leader epoch of this object has ended, or the disk has
        failed."""
        self.partition.check_epoch(self.epoch)

    async def load(self) -> None:
        """Read the log, and wait until all of it is below the high watermark.

        While this leader is isolated, waiting for an offset fails again and again; this method
        continues to wait. Raises `PartitionError` if the leader epoch ends, `RecordsError` and
        `StorageError`.
        """
        partition, end_offset = self.partition, self.partition.log.end_offset
        self.state = await load(partition)
        self.check()
        while partition.high_watermark < end_offset:
            await outcome(partial(call_when_safe, partition, end_offset))
            self.check()

    def append(
        self, group_id: str, make: Callable[[], Sequence[NewRecord]], *, whole: bool = False
    ) -> ErrorCode:
        """Append records about a group and apply them to the state; returns `none` if all are in
        the log. `make` returns the records; its errors are returned as codes, too.

        If records take several batches, the first ones may be in the log although an error is
        returned. With `whole`, records that do not fit into one batch are refused with
        `invalid_commit_offset_size`.
        """
        try:
            self.check()
            batches = to_batches(make(), self.partition.log.config.max_message_bytes)
            if whole and len(batches) > 1:
                raise BatchTooLargeError(
                    f"the records need {len(batches)} batches and must fit into one"
                )
            for batch in batches:
                # `acks_all` means acks=all; the records have keys, as compaction needs them.
                appended = self.partition.append(
                    memoryview(batch), self._now_ms(), acks_all=True, keys_are_checked=True
                )
                self.state.apply(batch)
                self.safety.appended(group_id, appended.last_offset + 1)
        except (PartitionError, *REFUSALS) as refused:
            self._log_refused(group_id, str(refused))
            return refusal_to_group_error(refused)
        return OK

    def append_for(
        self, respond: OnSafe, group_id: str, make: Callable[[], Sequence[NewRecord]]
    ) -> ErrorCode:
        """Append the records about a group that `make` returns. Returns `none` if they are in the
        log, else an error. Calls `respond` with `none` once the high watermark has passed all of
        them, or at once with the error."""
        code = self.append(group_id, make)
        if code is OK:
            self.safety.call_when_safe(group_id, respond)
        else:
            respond(code)
        return code

    def when_current(self, respond: OnSafe, group_id: str) -> None:
        """Calls `respond` with `none` once it is certain that this broker still was the coordinator
        at the time of this call, and the high watermark has passed all records of the group so far;
        or with an error.

        A deposed leader may learn late that it was deposed, while another coordinator already
        accepts commits. So a record is appended: once the high watermark has passed it, every
        replica that could be elected as another leader has accepted it in this leader epoch. One
        record serves all callers in one iteration of the event loop. If the partition has no other
        replicas, no record is needed: no other broker can lead.
        """
        followers = self.partition.followers
        if followers is None or not followers.are_waited_for:
            self.safety.call_when_safe(group_id, respond)
            return
        self._awaiting_mark.append(respond)
        if len(self._awaiting_mark) == 1:
            asyncio.get_running_loop().call_soon(self._append_read_mark)

    def _append_read_mark(self) -> None:
        """Append a record without content, and answer all callers of `when_current` once the high
        watermark has passed it.

        The record's replication proves that this broker is still the leader. A deposed leader
        cannot replicate it, so its clients get an error instead of old offsets (a read barrier).
        """
        callbacks, self._awaiting_mark = self._awaiting_mark, []
        # The record belongs to no group: `MARKS` is used in place of a group id.
        code = self.append(MARKS, lambda: [read_mark(self._now_ms())])
        for respond in callbacks:
            if code is OK:
                self.safety.call_when_safe(MARKS, respond)
            else:
                respond(code)

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
