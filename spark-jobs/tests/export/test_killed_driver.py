"""A driver as a process of its own, killed with its JVM as it writes; FULL=1: and as it commits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chiplog_spark.jobs.export import work
from e2e.clients.topics import create_topic
from e2e.kafka import debian
from e2e.kafka.process import DIE_WITH_US, BrokerProcess
from e2e.lanes import is_full
from e2e.spark.session import CONF
from e2e.spark.topic_rows import grow, stored

from .test_export import FOR_EVER, asked, exported, produce

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LIMIT_S = 300
TOPIC = "killed"
LOCAL = " ".join(
    ("--master local[2]", *(f'--conf "{name}={value}"' for name, value in CONF.items()))
)


@contextmanager
def driver(request: str, directory: Path, more: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A driver that does what the request says; nothing of it is left afterwards.

    `more`: further arguments of spark-submit.
    """
    debian.program("java")
    (directory / "request.json").write_text(request)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{LOCAL} {more} pyspark-shell",
    }
    job = (sys.executable, "-m", "chiplog_spark.jobs.export")
    with (directory / "output").open("ab") as output:
        child = subprocess.Popen(
            [*DIE_WITH_US, *job, str(directory / "request.json"), str(directory / "result.json")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # its JVM is in its group, and dies with it
        )
        try:
            yield child
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def kill_when(reached: Callable[[], bool], request: str, directory: Path, more: str = "") -> None:
    """Start a driver and kill it at the moment when this holds."""
    with driver(request, directory, more) as child:
        deadline_s = time.monotonic() + LIMIT_S
        while not reached():
            assert child.poll() is None, f"the driver ended by itself:\n{said(directory)}"
            assert time.monotonic() < deadline_s, f"not in {LIMIT_S} s:\n{said(directory)}"
            time.sleep(0.001)


def said(directory: Path) -> str:
    """The end of what the drivers in a folder printed."""
    return (directory / "output").read_text(errors="replace")[-4_000:]


def test_killed_drivers_leave_each_offset_once(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """What they left is finished by a driver that lives, here the one of this process."""
    create_topic(broker.bootstrap, TOPIC, 2, FOR_EVER)
    for partition in range(2):
        produce(broker, TOPIC, partition, range(3_000))
    target = tmp_path / "raw"
    ours = target / "_chiplog" / TOPIC
    request = asked(broker, TOPIC, target, recordsPerFile=200, filesPerCommit=4)
    everything = set(stored(broker.bootstrap, TOPIC, range(2)))

    def is_writing_the_second() -> bool:
        return any(ours.glob("staging/*2/_temporary/0/*"))

    kill_when(is_writing_the_second, request.to_json(), tmp_path)
    seen = exported(target, TOPIC)
    assert len(seen) == len(set(seen)) == 800
    assert set(seen) <= everything
    assert any(ours.glob("staging/*2/*"))

    def has_recorded_the_fourth() -> bool:
        return any(ours.glob("commits/*4.json"))

    if is_full():  # each driver is a JVM, and the test on Delta has one that is killed so, too
        kill_when(has_recorded_the_fourth, request.to_json(), tmp_path)
        seen = exported(target, TOPIC)
        assert len(seen) == len(set(seen)) >= 2_400
        assert set(seen) <= everything

    grow(broker.bootstrap, TOPIC, 3)
    produce(broker, TOPIC, 2, range(500))
    work(spark, request)
    assert exported(target, TOPIC) == stored(broker.bootstrap, TOPIC, range(3))
    assert not any(ours.glob("staging/*"))
