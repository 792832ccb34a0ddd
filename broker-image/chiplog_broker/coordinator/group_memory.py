"""Limits the memory of a broker's groups.

Kafka has no such limit: any client can make a coordinator store any number of groups and offsets.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

logger = logging.getLogger(__name__)

MAX_GROUPS: Final = 50_000
MAX_OFFSETS: Final = 400_000
"""Committed offsets, of about 350 bytes each."""
MAX_MEMBERS_BYTES: Final = 64 * 2**20
"""Metadata and assignments of the members of all groups."""
LOG_INTERVAL_MS: Final = 10_000


class Counted(Protocol):
    """The groups of one partition of `__consumer_offsets`, as they are counted here."""

    @property
    def group_count(self) -> int: ...

    @property
    def offset_count(self) -> int: ...


class GroupMemory:
    """The limits for all groups of one broker. Existing data stays; new data is refused."""

    def __init__(self, shards: Callable[[], list[Counted]], ticks_ms: Callable[[], int]) -> None:
        self._shards = shards
        self._ticks_ms = ticks_ms
        self._logged_ms = -LOG_INTERVAL_MS
        self.members_bytes = 0

    def members_changed(self, change_bytes: int) -> None:
        """The memory of a group's members has grown by this many bytes; negative if it shrank."""
        self.members_bytes += change_bytes

    def has_memory_for_members(self) -> bool:
        """Whether another member may join a group."""
        return self._is_allowed("members_bytes", self.members_bytes, MAX_MEMBERS_BYTES)

    def has_memory_for_groups(self) -> bool:
        """Whether another group may be created."""
        count = sum(shard.group_count for shard in self._shards())
        return self._is_allowed("groups", count, MAX_GROUPS)

    def has_memory_for_offsets(self, count: int) -> bool:
        """Whether `count` more committed offsets may be stored."""
        stored = sum(shard.offset_count for shard in self._shards())
        # `_is_allowed` checks whether one more fits: so all new offsets but the last are added.
        return self._is_allowed("offsets", stored + count - 1, MAX_OFFSETS)

    def _is_allowed(self, what: str, count: int, limit: int) -> bool:
        """Whether one more is allowed at this count. A refusal is logged, but not too often; `what`
        names in the log what is limited."""
        if count < limit:
            return True
        ticks_ms = self._ticks_ms()
        if ticks_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = ticks_ms
            logger.warning("groups_refused", extra={"limited": what, "limit": limit})
        return False
