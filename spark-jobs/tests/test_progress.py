"""How far a job is: from what its tasks have done, told while it works."""

import threading
from collections import Counter
from uuid import UUID

from chiplog_core.model.spark_run import RunProgress
from chiplog_spark.progress import counts_of_split, progress, reporting_progress
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.facts import Place

LIMIT_S = 60.0
"""A hang guard."""


def split(partition: int, start: int, end: int, replica: int = 1) -> Split:
    at = Place("orders", UUID(int=1), partition, replica)
    return Split(at, start, end, begins_range=start == 0)


SPLITS = [split(0, 0, 50), split(0, 50, 100), split(0, 0, 50, 2), split(1, 0, 50)]


def test_nothing_is_done_at_first() -> None:
    assert progress(SPLITS, Counter()) == RunProgress(partitions_total=2)
    assert progress([], Counter()).percent == 100


def test_a_partition_is_done_with_all_its_splits_and_the_total_is_inferred() -> None:
    done = counts_of_split(SPLITS[0], 1_000) + counts_of_split(SPLITS[3], 3_000)
    assert progress(SPLITS, done) == RunProgress(
        bytes=4_000, bytes_total=8_000, partitions=1, partitions_total=2, percent=50
    )
    for one in SPLITS[1:3]:
        done += counts_of_split(one, 2_000)
    assert progress(SPLITS, done) == RunProgress(
        bytes=8_000, bytes_total=8_000, partitions=2, partitions_total=2, percent=100
    )
    # Spark ran a task again whose executor was lost.
    again = done + counts_of_split(SPLITS[0], 1_000)
    assert (progress(SPLITS, again).percent, progress(SPLITS, again).partitions) == (100, 2)


def test_changes_are_reported_and_a_failure_to_report_harms_nothing() -> None:
    told: list[RunProgress] = []
    twice = threading.Event()

    def look() -> RunProgress:
        return RunProgress(percent=min(len(told), 2))

    def tell(now: RunProgress) -> None:
        told.append(now)
        if len(told) == 3:
            twice.set()
        raise OSError("no API server")

    with reporting_progress(look, tell, every_s=0.001):
        assert twice.wait(LIMIT_S)
    assert [one.percent for one in told] == [0, 1, 2], "what is the same is told once"


def test_how_far_it_came_is_reported_at_the_end_also_of_a_short_job() -> None:
    told: list[RunProgress] = []
    with reporting_progress(lambda: RunProgress(percent=100), told.append, every_s=3_600):
        pass
    assert [one.percent for one in told] == [100]
