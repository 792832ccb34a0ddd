"""Decides when records of a log are made durable: before they count, and for flush settings."""

from chiplog_broker.storage.config import Durability
from chiplog_broker.storage.log_state import LogState


class LogFlushing:
    """Makes one log durable as its topic's settings require."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    async def make_durable(self, offset: int) -> None:
        """Return once everything below `offset` may be acknowledged under the topic's durability.

        `Fsync`: once it is synced, together with records that arrived in the meantime. `PageCache`:
        at once, except for the epoch history and `flush.messages`.
        """
        state = self._state
        state.check_open()
        sync, config = state.sync, state.config
        unsynced_records = state.end_offset - sync.durable_end_offset
        if config.durability is Durability.FSYNC or unsynced_records >= config.flush_messages:
            await sync.reach(offset)
        elif not sync.epochs_saved:
            await sync.save_epochs()

    async def flush(self) -> None:
        """Make all records durable now, whatever the topic's durability."""
        await self._state.sync.flush()

    def is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms`, `flush.messages` or a finished segment require a flush."""
        sync, config = self._state.sync, self._state.config
        if sync.holds_more_than_tail:
            return True
        since_ms = sync.unsynced_since_ms
        if since_ms is not None and now_ms - since_ms >= config.flush_ms:
            return True
        return self._state.end_offset - sync.durable_end_offset >= config.flush_messages
