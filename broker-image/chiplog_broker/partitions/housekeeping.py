"""What must be done from time to time: retention, removal of deleted files, checkpoints."""

import asyncio
import logging
from collections.abc import Mapping

from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock
from chiplog_broker.settings import setting
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import StorageError
from chiplog_core.config import broker_keys as keys

log = logging.getLogger(__name__)


class Housekeeping:
    """Two loops: one keeps logs within their limits, one writes checkpoints."""

    def __init__(
        self,
        directory: LogDirectory,
        replicas: Replicas,
        clock: Clock,
        config: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._replicas = replicas
        self._clock = clock
        check_ms = setting(config, keys.LOG_RETENTION_CHECK_INTERVAL_MS)
        checkpoint_ms = setting(config, keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS)
        self._intervals_s = check_ms / 1000, max(checkpoint_ms, 1) / 1000
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin; the first round comes after one interval."""
        loop = asyncio.get_running_loop()
        maintain_s, checkpoint_s = self._intervals_s
        self._tasks = [
            loop.create_task(self._maintain(maintain_s)),
            loop.create_task(self._checkpoint(checkpoint_s)),
        ]

    async def stop(self) -> None:
        """End both loops, each after the round it is in."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _maintain(self, interval_s: float) -> None:
        while True:
            await self._clock.sleep(interval_s)
            try:
                await self._directory.maintain(self._replicas.high_watermarks())
            except StorageError as failed:
                log.exception("retention_failed", extra={"reason": str(failed)})

    async def _checkpoint(self, interval_s: float) -> None:
        while True:
            await self._clock.sleep(interval_s)
            try:
                await self._directory.checkpoint(self._replicas.high_watermarks())
            except StorageError as failed:
                log.exception("checkpoint_failed", extra={"reason": str(failed)})
