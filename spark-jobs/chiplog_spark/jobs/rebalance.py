"""The job of a `Rebalance`: measures the cluster from its data, and makes a proposal.

`python -m chiplog_spark.jobs.rebalance REQUEST [RESULT]`, see `entry`. Its request is
`chiplog_core.rebalance.job.RebalanceJob`. Its summary is what `documents.proposal_json` makes,
together with what was read and how exact the figures are.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Final

from pyspark.sql import SparkSession

from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.rebalance.documents import Json, proposal_json
from chiplog_core.rebalance.fitting import fitted
from chiplog_core.rebalance.job import RebalanceJob
from chiplog_core.rebalance.measured import Measured, PartitionName
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import RebalanceRefused
from chiplog_core.spark.requests import JobKind, Request
from chiplog_spark.jobs.brokers import access_of
from chiplog_spark.jobs.entry import main as enter
from chiplog_spark.jobs.reporting import progress_reporter
from chiplog_spark.rebalance.counting import Tallies
from chiplog_spark.rebalance.planning import Inventory, take_inventory
from chiplog_spark.rebalance.reading import read_tallies
from chiplog_spark.rebalance.sketch import CAPACITY
from chiplog_spark.rebalance.window import Window, covered, measurements
from chiplog_spark.refused import Refused
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import WireError

MEASURED: Final = "Measured"
MAX_REPORTED_PARTITIONS: Final = 500


def main() -> None:
    enter(JobKind.REBALANCE, work)


def work(spark: SparkSession, request: Request) -> Result:
    """Measure the requested topics, and propose how to move their replicas. Raises `Refused`."""
    job = request.job_as(RebalanceJob)
    try:
        settings = job.settings()
        access = access_of(request)
    except RebalanceRefused as refused:
        raise Refused("InvalidSpec", str(refused)) from refused
    except ValueError as error:
        raise Refused("InvalidRequest", f"bootstrap: {error}") from error
    now_ms = time.time_ns() // 1_000_000
    window = Window(start_ms=now_ms - job.window_ms, end_ms=now_ms)
    try:
        with Client(access) as client:
            inventory = take_inventory(client, job.topics, job.sample_records)
    except WireError as error:
        raise Refused(error.reason, str(error)) from error
    with _limited(spark, job.time_limit_ms):
        tallies = read_tallies(
            spark, access, inventory, window, job.bytes_per_second, progress_reporter(request)
        )
    figures = measurements(tallies, inventory.reaches, window)
    try:
        proposal = propose(job.all_brokers(), inventory.partitions, figures, settings)
    except RebalanceRefused as refused:
        raise Refused("InvalidSpec", str(refused)) from refused
    summary = {
        **proposal_json(proposal),
        "coverage": _coverage(inventory, tallies),
        "sampling": _sampling(job, inventory, tallies, window),
        "partitions": _partitions(inventory, tallies, figures),
    }
    return Result(
        application=request.application,
        state=ResultState.SUCCEEDED,
        reason=MEASURED,
        summary=fitted(summary),
    )


def _coverage(inventory: Inventory, tallies: Tallies) -> Json:
    """The number of partitions, records and bytes that were read, in the form that all jobs use."""
    return {
        "topics": len({name.topic for name in inventory.reaches}),
        "partitions": len(inventory.reaches),
        "replicas": len(inventory.reaches),
        "records": sum(tally.records for tally in tallies.values()),
        "bytes": sum(tally.bytes for tally in tallies.values()),
    }


def _sampling(job: RebalanceJob, inventory: Inventory, tallies: Tallies, window: Window) -> Json:
    """How the figures were measured, and how exact they are."""
    rate_window = covered(window, tallies.values())
    key_errors_percent = [
        100 * tally.keys.error / tally.records for tally in tallies.values() if tally.records
    ]
    return {
        "sampleRecords": job.sample_records,
        "sampledPartitions": sum(reach.is_sampled for reach in inventory.reaches.values()),
        "windowStartMs": rate_window.start_ms,
        "windowEndMs": rate_window.end_ms,
        "keysCounted": CAPACITY,
        "keyErrorAtMostPercent": ceil(max(key_errors_percent, default=0.0)),
        "goneTopics": inventory.gone[:100],  # limits the size of the result
    }


def _partitions(
    inventory: Inventory, tallies: Tallies, figures: Mapping[PartitionName, Measured]
) -> list[Json]:
    """The figures of the busiest partitions; `exact` says whether all of its records were read."""
    names = sorted(figures, key=lambda name: (-figures[name].weight, -figures[name].bytes, name))
    reported = []
    for name in names[:MAX_REPORTED_PARTITIONS]:
        measured, tally = figures[name], tallies.get(name)
        reported.append(
            {
                "topic": name.topic,
                "partition": name.partition,
                "records": measured.records,
                "bytes": measured.bytes,
                "exact": not inventory.reaches[name].is_sampled,
                "bytesPerSecond": round(measured.bytes_per_second),
                "recordsPerSecond": round(measured.records_per_second),
                "recordsWithoutKey": tally.records_without_key if tally else 0,
                "firstTimestampMs": tally.first_timestamp_ms if tally else None,
                "lastTimestampMs": tally.last_timestamp_ms if tally else None,
            }
        )
    return reported


@contextmanager
def _limited(spark: SparkSession, time_limit_ms: int | None) -> Iterator[None]:
    """A context that cancels Spark's jobs after the time limit, and then raises `Refused`.

    None means no limit.
    """
    if time_limit_ms is None:
        yield
        return
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(time_limit_ms / 1000, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if is_over.is_set():  # Spark's error only says that its job was cancelled
            raise _too_long(time_limit_ms) from error
        raise
    finally:
        timer.cancel()


def _too_long(time_limit_ms: int) -> Refused:
    """The error of a measurement that did not end within `spec.timeLimit`."""
    return Refused(
        "TimeLimitExceeded",
        f"spec.timeLimit: the measurement was not complete after {time_limit_ms} ms; raise "
        "the limit, exclude topics (spec.excludedTopics), or give the job more executors",
    )


if __name__ == "__main__":
    main()
