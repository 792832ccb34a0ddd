"""What one reign appends to a partition of `__consumer_offsets`, and what all of it says."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from chiplog_broker.coordinator.errors import told_of
from chiplog_broker.coordinator.holding import Safety, Told, outcome, when_safe
from chiplog_broker.coordinator.loading import load
from chiplog_broker.groups.batches import read_mark, to_batches
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.errors import REFUSALS, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.writer import NewRecord

logger = logging.getLogger(__name__)

OK = ErrorCode.none
MARKS = ""
"""Of no group."""
LOG_INTERVAL_MS = 10_000
"""A partition that takes no records refuses those of all groups."""


class GroupLog:
    """`state` is the fold of the log up to its end, `safety` says how much of it may be told."""

    def __init__(
        self, partition: Partition, now_ms: Callable[[], int], ticks_ms: Callable[[], int]
    ) -> None:
        """The partition must lead: what is appended belongs to the reign that it leads in now."""
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.state = GroupsState()
        self.safety = Safety(partition)
        self._now_ms = now_ms
        self._ticks_ms = ticks_ms
        self._asking: list[Told] = []
        self._logged_ms = -LOG_INTERVAL_MS

    def check(self) -> None:
        """Raises `PartitionError` where that reign is over, or the disk has failed."""
        self.partition.check_epoch(self.epoch)

    async def load(self) -> None:
        """Learn what there is, and wait until all of it is safe.

        A leader that is cut off tells all who wait to go; this one waits on. Raises
        `PartitionError` where nothing becomes safe any more, `RecordsError`, `StorageError`.
        """
        partition, end_offset = self.partition, self.partition.log.end_offset
        self.state = await load(partition)
        self.check()
        while partition.high_watermark < end_offset:
            await outcome(partial(when_safe, partition, end_offset))
            self.check()

    def append(
        self, group_id: str, make: Callable[[], Sequence[NewRecord]], *, whole: bool = False
    ) -> ErrorCode:
        """Append records and know what they say; `none` where all of them are in the log.

        Of several batches the first ones may be there with a refusal, too; but `whole` refuses
        what does not fit into one, with `invalid_commit_offset_size`.
        """
        try:
            self.check()
            batches = to_batches(make(), self.partition.log.config.max_message_bytes)
            if whole and len(batches) > 1:
                raise BatchTooLargeError(
                    f"the records need {len(batches)} batches and must fit into one"
                )
            for batch in batches:
                appended = self.partition.append(
                    memoryview(batch), self._now_ms(), for_all=True, keys_are_checked=True
                )
                self.state.apply(batch)
                self.safety.appended(group_id, appended.last_offset + 1)
        except (PartitionError, *REFUSALS) as refused:
            self._refused(group_id, str(refused))
            return told_of(refused)
        return OK

    def append_for(
        self, respond: Told, group_id: str, make: Callable[[], Sequence[NewRecord]]
    ) -> ErrorCode:
        """The same, and `respond` is told of it: of a refusal at once, else when all is safe."""
        code = self.append(group_id, make)
        if code is OK:
            self.safety.when_safe(group_id, respond)
        else:
            respond(code)
        return code

    def when_current(self, respond: Told, group_id: str) -> None:
        """`respond` is told of no error where this reign went on after this call, and all that
        there was of the group is safe.

        A leader that was deposed may be the last to hear of it, and others commit meanwhile. So
        it asks those without whom nobody else could: a record that is safe was taken by all of
        them in this reign. One record serves all who ask in one turn of the event loop. Who waits
        for nobody needs none: nobody else can lead.
        """
        followers = self.partition.followers
        if followers is None or not followers.are_waited_for:
            self.safety.when_safe(group_id, respond)
            return
        self._asking.append(respond)
        if len(self._asking) == 1:
            asyncio.get_running_loop().call_soon(self._mark)

    def _mark(self) -> None:
        asking, self._asking = self._asking, []
        code = self.append(MARKS, lambda: [read_mark(self._now_ms())])
        for respond in asking:
            if code is OK:
                self.safety.when_safe(MARKS, respond)
            else:
                respond(code)

    def answer(self, respond: Told, group_id: str, code: ErrorCode) -> None:
        """Codes tell of a group too: they wait for what was appended before."""
        self.safety.when_safe(group_id, lambda failed: respond(code if failed is OK else failed))

    def _refused(self, group_id: str, reason: str) -> None:
        ticks_ms = self._ticks_ms()
        if ticks_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = ticks_ms
            logger.warning("group_record_refused", extra={"group": group_id, "reason": reason})
