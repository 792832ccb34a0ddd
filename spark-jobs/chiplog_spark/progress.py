"""Reports the progress of a running job: in the driver's log, and in the object that the operator
shows.

Tasks add up their work when they end, and a thread of the driver reads the sums. A failure to
report does not affect the job.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from chiplog_core.model.spark_run import RunProgress
from chiplog_spark.source.splits import Split

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
BYTES: Final = ""
OFFSETS: Final = "offsets"

Done: TypeAlias = Counter[str]
"""What tasks have read: `BYTES`, `OFFSETS`, and by `name_of` the read splits of each partition."""

Report: TypeAlias = Callable[[RunProgress], None]


def name_of(topic: str, partition: int) -> str:
    """The name of a partition in `Done`. With its hyphen it cannot be equal to `OFFSETS` or
    `BYTES`."""
    return f"{topic}-{partition}"


def counts_of_split(split: Split, bytes_read: int) -> Done:
    """The counts that a task adds when it has read a split of `bytes_read` bytes."""
    name = name_of(split.at.topic, split.at.partition)
    return Counter({BYTES: bytes_read, OFFSETS: split.end - split.start, name: 1})


def progress(splits: Sequence[Split], done: Done) -> RunProgress:
    """The progress of reading all `splits`; `done` is the sum of what tasks have reported.

    If Spark runs a task twice, its offsets count twice, so their sum is limited to the total. The
    total of bytes is unknown before all are read: it is estimated from the bytes per read offset.
    """
    planned = Counter(name_of(split.at.topic, split.at.partition) for split in splits)
    total_offsets = sum(split.end - split.start for split in splits)
    offsets = min(done[OFFSETS], total_offsets)
    return RunProgress(
        bytes=done[BYTES],
        bytes_total=done[BYTES] * total_offsets // offsets if offsets else None,
        partitions=sum(done[name] >= count for name, count in planned.items()),
        partitions_total=len(planned),
        percent=100 * offsets // total_offsets if total_offsets else 100,
    )


@contextmanager
def reporting_progress(
    current: Callable[[], RunProgress], report: Report, every_s: float = EVERY_S
) -> Iterator[None]:
    """A context in which a thread calls `report` with the `current()` progress.

    It does so every `every_s` seconds if the progress changed, and a last time at the end.
    """
    ended = threading.Event()

    def watch() -> None:
        last_reported: RunProgress | None = None
        is_last = False
        while not is_last:
            is_last = ended.wait(every_s)  # True as soon as the context ends
            now = current()
            if now != last_reported:
                last_reported = now
                report_safely(now, report)

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report_safely(now: RunProgress, report: Report) -> None:
    """Log the progress and call `report` with it; an error of `report` is only logged."""
    facts = {
        "bytes_read": now.bytes,
        "bytes_total_about": now.bytes_total,
        "partitions_done": now.partitions,
        "partitions": now.partitions_total,
        "percent": now.percent,
    }
    log.info("progress", extra=facts)
    try:
        report(now)
    except Exception as error:  # noqa: BLE001 - an error must not end the job
        log.warning("progress not told", extra={"why": f"{type(error).__name__}: {error}"})


def to_log_only(_progress: RunProgress) -> None:
    """A `Report` that does nothing: progress is logged in any case."""
