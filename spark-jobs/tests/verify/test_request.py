"""What the operator writes into a request, as the job reads it."""

import pytest

from chiplog_core.manifest.documents import UnreadableDocument
from chiplog_core.model.spark_result import Check
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_spark.verify.job import Job

PLACE = ResultPlace(config_map="nightly-result")


def read(**job: object) -> Job:
    return Request(
        kind=JobKind.VERIFICATION,
        application="nightly",
        namespace="demo",
        bootstrap="demo-kafka-bootstrap:9092",
        result=PLACE,
        job=job,
    ).job_as(Job)


def test_everything_that_a_verification_says() -> None:
    job = read(
        topics=["orders"],
        checks=["Crc", "KeyPlacement"],
        partitioner="murmur2",
        bytesPerSecond=1_000,
        timeLimitMs=60_000,
        maxViolations=10,
    )
    assert job.checks == (Check.CRC, Check.KEY_PLACEMENT)
    assert (job.partitioner.value, job.bytes_per_second, job.time_limit_ms) == (
        "murmur2",
        1_000,
        60_000,
    )
    assert job.max_violations == 10


def test_what_is_not_said() -> None:
    job = read(topics=["orders"], checks=[], bytesPerSecond=None, timeLimitMs=None)
    assert (job.checks, job.bytes_per_second, job.time_limit_ms) == ((), None, None)


def test_a_wish_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="topicz"):
        read(topics=["orders"], topicz=["a"])
    with pytest.raises(UnreadableDocument, match="topics"):
        read(topics=[])
