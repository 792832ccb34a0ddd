"""How a data directory was found when it was opened, and how far opening it has come."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from chiplog_broker.storage.names import TopicPartition


class Verdict(Enum):
    """What opening a replica came to."""

    INTACT = "intact"
    TAIL_CUT = "tail cut"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """How one replica was found."""

    partition: TopicPartition
    verdict: Verdict
    recovery_point: int
    high_watermark: int
    log_start_offset: int = 0
    end_offset: int = 0
    cut_bytes: int = 0
    reason: str = ""
    """Which file, where, and what was wrong; empty for an intact replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """How the directory was found."""

    clean: bool
    """The last broker shut down in order: nothing was read, nothing can be lost."""
    broker_epoch: int | None
    """The epoch of the broker that shut it down."""
    partitions: tuple[PartitionReport, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far opening has come."""

    partitions_done: int
    partitions_total: int
    scanned_bytes: int


class ProgressMeter:
    """Counts while a directory is opened."""

    def __init__(self, total: int, report: Callable[[Progress], None]) -> None:
        self._partitions_done = 0
        self._partitions_total = total
        self._scanned_bytes = 0
        self._report = report

    def scanned(self, size_bytes: int) -> None:
        self._scanned_bytes += size_bytes
        self._notify()

    def done(self) -> None:
        self._partitions_done += 1
        self._notify()

    def _notify(self) -> None:
        self._report(Progress(self._partitions_done, self._partitions_total, self._scanned_bytes))
