"""Brokers by themselves, and a verification of what they stored, in Spark and without it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chiplog_core.model.spark_result import Result
from chiplog_spark.source.splits import Split
from chiplog_spark.verify.job import Job, verify
from chiplog_spark.verify.judge import Judge
from chiplog_spark.verify.merging import merged
from chiplog_spark.verify.reading import Task, rows_of
from chiplog_spark.verify.reports import Read
from chiplog_spark.verify.rows import ORDER
from chiplog_spark.wire.access import Access, addresses_of
from e2e.clients.standalone import StandaloneBroker

SETTINGS = {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "500"}


class InProcess:
    """The two stages with a sort between them: what `InSpark` does, without a JVM."""

    parallel_tasks = 1

    def run(self, task: Task, splits: Sequence[Split], judge: Judge) -> None:
        rows = sorted(
            rows_of(task, iter(splits)), key=lambda row: tuple(getattr(row, at) for at in ORDER)
        )
        for told in merged(rows, task.facts, task.wanted.limit):
            if isinstance(told, Read):
                judge.add_read(told)
            else:
                judge.add_found(told)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneBroker]:
    """A broker by itself, that no test stops."""
    with StandaloneBroker(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as one:
        yield one


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[StandaloneBroker]:
    """A broker for a test that stops and damages it."""
    with StandaloneBroker(tmp_path / "broker", settings=SETTINGS) as one:
        yield one


@pytest.fixture
def verified() -> Callable[..., Result]:
    """Verify some topics of whoever answers at an address; takes what `Job` has."""

    def run(bootstrap: str, *topics: str, **more: Any) -> Result:
        return verify(InProcess(), Access(addresses_of(bootstrap)), Job(topics=topics, **more))

    return run
