"""A log against a plain list.

Hypothesis picks any order of appends, rolls, truncations, deletions, retention, clean
restarts, kills and power cuts, and compares every offset and every timestamp lookup with
what a list of records says.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chiplog_broker.records.batch import Codec
from chiplog_broker.records.reader import read_records
from chiplog_broker.records.batch import iter_batches
from chiplog_broker.records.writer import Producer
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.errors import OffsetOutOfRangeError
from chiplog_broker.storage.log import ListOffset, PartitionLog

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

_T = TypeVar("_T")

TINY = LogConfig(
    segment_bytes=600,
    segment_ms=5_000,
    index_interval_bytes=100,
    file_delete_delay_ms=50,
    message_timestamp_after_max_ms=10**12,
)


@dataclass(frozen=True)
class Entry:
    """What the list knows of one record."""

    offset: int
    value: bytes
    timestamp_ms: int
    epoch: int
    batch_start: int


class LogMachine(RuleBasedStateMachine):
    """One log, one list."""

    def __init__(self, kit: "StorageKit", make_batch: Callable[..., memoryview]) -> None:
        super().__init__()
        self.kit = kit
        self.make_batch = make_batch
        self.kit.config = TINY
        self.loop = asyncio.new_event_loop()
        self.directory, self.log = self.run(kit.new_log())
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.durable = 0
        self.epoch = 0
        self.written = 0
        self.sequence = 0

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    # --- rules ---------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 5),
        step_ms=st.integers(-300, 800),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    )
    def append(self, count: int, step_ms: int, codec: Codec) -> None:
        self.kit.clock.time_ms += 100
        timestamp_ms = max(0, self.kit.clock.time_ms + step_ms)
        values = [b"record %d" % (self.written + index) for index in range(count)]
        self.written += count
        batch = self.make_batch(values, timestamp_ms=timestamp_ms, codec=codec)
        result = self.log.append_as_leader(batch, self.epoch, self.now)
        assert (result.base_offset, result.last_offset) == (self.end, self.end + count - 1)
        self._note(values, timestamp_ms)

    @rule(count=st.integers(1, 3), again=st.booleans())
    def append_idempotent(self, count: int, again: bool) -> None:
        values = [b"once %d" % (self.written + index) for index in range(count)]
        self.written += count
        producer = Producer(producer_id=4, epoch=0, base_sequence=self.sequence)
        batch = bytes(self.make_batch(values, timestamp_ms=self.now, producer=producer))
        if self.log._producers.check_sequence_is_free(4):
            pass
        first = self.log.append_as_leader(memoryview(batch), self.epoch, self.now)
        assert not first.duplicate
        self.sequence += count
        self._note(values, self.now)
        if again:
            second = self.log.append_as_leader(memoryview(batch), self.epoch, self.now)
            assert second.duplicate
            assert second[:2] == first[:2]
