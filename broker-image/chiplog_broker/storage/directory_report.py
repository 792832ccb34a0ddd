"""The result of opening a data directory, and the progress of opening it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from chiplog_broker.storage.names import TopicPartition


class Verdict(Enum):
    """The result of opening a replica."""

    INTACT = "intact"
    TAIL_CUT = "tail cut"
    """The end of the log was incomplete after a crash, and was truncated."""
    QUARANTINED = "quarantined"
    """The replica is damaged and is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """How one replica was opened."""

    partition: TopicPartition
    verdict: Verdict
    recovery_point: int
    high_watermark: int
    log_start_offset: int = 0
    end_offset: int = 0
    cut_bytes: int = 0
    reason: str = ""
    """The file, the position and the problem; empty for an intact replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """How the directory was opened."""

    clean: bool
    """Whether there was a clean shutdown: nothing had to be recovered, and nothing can be lost."""
    broker_epoch: int | None
    """The broker epoch in the mark of a clean shutdown; None without it."""
    partitions: tuple[PartitionReport, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of opening."""

    partitions_done: int
    partitions_total: int
    scanned_bytes: int


class ProgressMeter:
    """Counts the progress while a directory is opened."""

    def __init__(self, total: int, report: Callable[[Progress], None]) -> None:
        self._partitions_done = 0
        self._partitions_total = total
        self._scanned_bytes = 0
        self._report = report

    def scanned(self, size_bytes: int) -> None:
        """Count bytes that recovery has read, and report the progress."""
        self._scanned_bytes += size_bytes
        self._notify()

    def done(self) -> None:
        """Count one opened partition, and report the progress."""
        self._partitions_done += 1
        self._notify()

    def _notify(self) -> None:
        self._report(Progress(self._partitions_done, self._partitions_total, self._scanned_bytes))
