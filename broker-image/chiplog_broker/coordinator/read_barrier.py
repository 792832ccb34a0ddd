"""Whether this broker still is the coordinator: proven by a record that other replicas take.

A deposed leader may learn late that it was deposed, while another coordinator already answers
clients. So a record without content is appended: once the high watermark has passed it, every
replica that could be elected as another leader has accepted it in this leader epoch. A deposed
leader cannot replicate it, so its clients get an error instead of an old answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from chiplog_broker.coordinator.holding import Safety
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_wire.protocol.errors import ErrorCode

MARKS: Final = ""
"""In place of a group or transactional id, for the records of barriers, which belong to none."""


class ReadBarrier:
    """Calls back once it is certain that no other broker had become the coordinator."""

    __slots__ = ("_append", "_partition", "_safety", "_waiting")

    def __init__(
        self, partition: Partition, safety: Safety, append: Callable[[], ErrorCode]
    ) -> None:
        """`append` appends a record without content, as one of `MARKS`; it returns `none` or an
        error."""
        self._partition = partition
        self._safety = safety
        self._append = append
        self._waiting: list[OnSafe] = []
        """The callbacks for which a record is appended next."""

    def when_current(self, respond: OnSafe, key: str) -> None:
        """Calls `respond` with `none` once it is certain that this broker still was the coordinator
        at the time of this call, and the high watermark has passed all records so far of this group
        or transactional id; or with an error.

        One record serves all callers in one iteration of the event loop. If the partition has no
        other replicas, no record is needed: no other broker can lead.
        """
        followers = self._partition.followers
        if followers is None or not followers.are_waited_for:
            self._safety.call_when_safe(key, respond)
            return
        self._waiting.append(respond)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._append_mark)

    def _append_mark(self) -> None:
        """Append the record, and call back once the high watermark has passed it."""
        callbacks, self._waiting = self._waiting, []
        code = self._append()
        for respond in callbacks:
            if code is ErrorCode.none:
                self._safety.call_when_safe(MARKS, respond)
            else:
                respond(code)
