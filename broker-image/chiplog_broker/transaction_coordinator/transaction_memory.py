"""Limits the memory of a broker's transactional ids.

Kafka has no such limit: any client can make a coordinator store any number of them.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

logger = logging.getLogger(__name__)

MAX_TRANSACTIONAL_IDS: Final = 50_000
MAX_PARTITIONS: Final = 400_000
"""The partitions of all open transactions together, of about 150 bytes each."""
LOG_INTERVAL_MS: Final = 10_000


class Counted(Protocol):
    """The transactions of one partition of `__transaction_state`, as they are counted here."""

    @property
    def id_count(self) -> int: ...

    @property
    def partition_count(self) -> int: ...


class TransactionMemory:
    """The limits for all transactions of one broker. Existing data stays; new data is refused."""

    def __init__(
        self, shards: Callable[[], Iterable[Counted]], ticks_ms: Callable[[], int]
    ) -> None:
        self._shards = shards
        self._ticks_ms = ticks_ms
        self._logged_ms = -LOG_INTERVAL_MS

    def has_memory_for_ids(self) -> bool:
        """Whether another transactional id may be created."""
        count = sum(shard.id_count for shard in self._shards())
        return self._is_allowed("transactional_ids", count + 1, MAX_TRANSACTIONAL_IDS)

    def has_memory_for_partitions(self, count: int) -> bool:
        """Whether `count` more partitions may be added to transactions."""
        present = sum(shard.partition_count for shard in self._shards())
        return self._is_allowed("partitions", present + count, MAX_PARTITIONS)

    def _is_allowed(self, what: str, count: int, limit: int) -> bool:
        """Whether this many are allowed. A refusal is logged, but not too often; `what` names in
        the log what is limited."""
        if count <= limit:
            return True
        ticks_ms = self._ticks_ms()
        if ticks_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = ticks_ms
            logger.warning("transactions_refused", extra={"limited": what, "limit": limit})
        return False
