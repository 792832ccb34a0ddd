"""When a log starts a new segment, and how."""

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log_state import LogState, index_settings
from chiplog_broker.storage.producer_snapshot import encode_snapshot
from chiplog_broker.storage.segment import MAX_RELATIVE_OFFSET, Segment


class SegmentRoller:
    """Starts the segments of one log."""

    __slots__ = ("_roll_bytes", "_roll_ms", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.configure(state.config)

    def configure(self, config: LogConfig) -> None:
        """Apply these settings."""
        self._roll_bytes = config.segment_bytes
        self._roll_ms = config.roll_ms - self._jitter_ms()
        self._state.segments.active.index_settings = index_settings(config)

    def is_due(
        self, last_offset: int, max_timestamp_ms: int, added_bytes: int, now_ms: int
    ) -> bool:
        """Whether a batch belongs into a new segment, by Kafka's conditions.

        The batch ends at `last_offset`, has `added_bytes` and the largest timestamp
        `max_timestamp_ms`. The age of the active segment is the difference of record timestamps, or
        by our clock if its records have none.
        """
        segment = self._state.segments.active
        first_ms = segment.first_timestamp_ms
        age_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - segment.created_ms
        return (
            segment.size_bytes + added_bytes > self._roll_bytes
            or (age_ms > self._roll_ms and segment.size_bytes > 0)
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.index_full
        )

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the log end offset, unless the newest one is empty."""
        state = self._state
        active = state.segments.active
        if active.size_bytes == 0:
            return
        segment = state.new_segment(state.end_offset)
        try:
            active.seal()
            segment.create(now_ms)
        except OSError as error:
            self._discard(segment)
            state.health.write_failed(error)
        state.sync.wrote_to(active, now_ms)
        state.sync.names_changed()
        self.snapshot_producers()
        state.segments.add(segment)
        self._roll_ms = state.config.roll_ms - self._jitter_ms()

    def _discard(self, segment: Segment) -> None:
        """Remove the files of a segment that could not be created.

        A smaller batch may still fit into the active segment. After a crash, its records behind the
        start of such a file would be taken for an old copy, which the file replaces.
        """
        state = self._state
        try:
            segment.discard()
        except OSError as error:
            state.health.take_offline(error)
        state.sync.names_changed()

    def snapshot_producers(self) -> None:
        """Have a snapshot of the producers at the log end offset written with the next sync."""
        state = self._state
        state.pass_time()
        snapshot = encode_snapshot(state.producers, state.env.clock.now_ms())
        state.sync.add_snapshot(state.end_offset, snapshot)

    def _jitter_ms(self) -> int:
        """A random part of `segment.jitter.ms`, so that not all logs roll at once."""
        config = self._state.config
        widest_ms = min(config.segment_jitter_ms, config.roll_ms)
        if widest_ms <= 0:
            return 0
        return int.from_bytes(self._state.env.rng.token(8), "big") % widest_ms
