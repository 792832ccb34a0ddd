"""The initial state of a log: recovered from disk, or new."""

from dataclasses import dataclass, field

from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.segment import Segment


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The parts of one log."""

    segments: list[Segment]
    epochs: EpochHistory
    producers: ProducerStates
    log_start_offset: int
    durable_end_offset: int
    unsynced: list[Segment]
    """Segments whose bytes or names may not be durable."""
    snapshots: dict[int, bytes] = field(default_factory=dict)
    """Producer snapshots to write with the first sync, by offset."""
