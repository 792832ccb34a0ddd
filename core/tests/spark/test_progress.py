"""How far a job is, as its driver leaves it and as users see it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark_run import ApplicationStatus, RunProgress
from chiplog_core.spark.progress import (
    MAX_PROGRESS_BYTES,
    progress_of,
    progress_text,
    progress_words,
)

HALF = RunProgress(
    bytes=1_234_000_000, bytes_total=2_468_000_000, partitions=3, partitions_total=12, percent=50
)


def test_what_is_written_reads() -> None:
    text = progress_text("all-1", HALF)
    assert len(text) < MAX_PROGRESS_BYTES
    assert progress_of(text, application="all-1") == HALF
    assert progress_of(progress_text("all-1", RunProgress()), application="all-1") == RunProgress()


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "no JSON",
        "[]",
        progress_text("another", HALF),
        progress_text("all-1", HALF).replace("50", "101"),
        progress_text("all-1", HALF) + " " * MAX_PROGRESS_BYTES,
        '{"version": 2, "application": "all-1"}',
    ],
)
def test_what_is_not_of_it_says_nothing(text: object) -> None:
    assert progress_of(text, application="all-1") is None


@given(st.dictionaries(st.sampled_from(["bytes", "percent", "partitions"]), st.integers()))
def test_whatever_is_written_is_read_or_left(value: dict[str, int]) -> None:
    found = progress_of(json.dumps({"application": "a", **value}), application="a")
    assert found is None or 0 <= found.percent <= 100


def test_in_words() -> None:
    run = ApplicationStatus(name="all-1", attempt=1, progress=HALF)
    assert progress_words(run) == "1.2 GB of about 2.5 GB, 3 of 12 partitions"
    begun = ApplicationStatus(
        name="all-1", attempt=2, progress=RunProgress(bytes=10, partitions_total=1)
    )
    assert progress_words(begun) == "attempt 2, 10 bytes, 0 of 1 partitions"
    assert progress_words(ApplicationStatus(name="all-1")) == ""
