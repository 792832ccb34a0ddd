"""Kafka's StreamsSmokeTest with exactly_once_v2, whose driver verifies all results itself."""

import itertools
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import measured
from e2e.clients.topics import create_topics, delete_topics, topic_names
from e2e.kafka.members import wait_for
from e2e.lanes import is_full
from e2e.long_form import LONG_FORM
from e2e.loopback.cluster import SIZE
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.smoke import CLOSED, FAILED, RUNS, TOPICS, WRITES, SmokeTest

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(1_800)]

PARTITIONS = 5 if is_full() else 1
LONG_S, LONG_RECORDS = 300, 5_000
KILLED_S, KILLED_RECORDS, WHOLE_S = (300, 2_000, 15) if is_full() else (10, 50, 0)
"""How long the driver writes while brokers are killed, how many records of each key, and how long
the cluster is whole between two kills. In the long form there is a kill in about 20 seconds."""
# Hang guards: the driver itself gives up after six minutes of verification.
RUNS_LIMIT_S, WRITES_LIMIT_S, VERIFIED_LIMIT_S, CLOSED_LIMIT_S = 300, 120, 420, 90


@pytest.fixture
def smoke(cluster: ThreeBrokers, tmp_path: Path) -> Iterator[SmokeTest]:
    create_topics(cluster.bootstrap, TOPICS, PARTITIONS, replicas=SIZE)
    one = SmokeTest(cluster.bootstrap, tmp_path)
    yield one
    one.kill()
    internal = {name for name in topic_names(cluster.bootstrap) if name.startswith(one.application)}
    delete_topics(cluster.bootstrap, {*TOPICS, *internal})


@LONG_FORM
@pytest.mark.parametrize("lasts_s", [None, LONG_S], ids=["Kafka's driver", "for five minutes"])
def test_the_driver_verifies_every_result(smoke: SmokeTest, lasts_s: int | None) -> None:
    processor = running(smoke)
    driver = smoke.long_driver(lasts_s, LONG_RECORDS) if lasts_s else smoke.driver()
    records = verified(smoke, driver, LONG_S)
    closed_s = close(smoke, processor)
    measured.note(
        f"StreamsSmokeTest, exactly_once_v2: SUCCESS with {records} records, closed in "
        f"{closed_s:.1f} s"
    )


def test_the_driver_verifies_every_result_although_brokers_are_killed(
    cluster: ThreeBrokers, smoke: SmokeTest
) -> None:
    """The first broker that is killed coordinates the transactions of the processor."""
    processor = running(smoke)
    driver = smoke.long_driver(KILLED_S, KILLED_RECORDS)
    wait_for("the driver writes", lambda: WRITES in smoke.printed("driver"), WRITES_LIMIT_S)
    first = cluster.coordinator_with(smoke.application)
    victims = itertools.cycle(sorted({1, 2, 3}, key=lambda broker_id: broker_id != first))
    until_s = time.monotonic() + KILLED_S
    kills = cluster.kill_in_turn(
        victims, lambda _: driver.poll() is None and time.monotonic() < until_s, WHOLE_S
    )
    records = verified(smoke, driver, KILLED_S)
    closed_s = close(smoke, processor)
    measured.note(
        f"StreamsSmokeTest, exactly_once_v2: SUCCESS with {records} records and {kills} brokers "
        f"killed, closed in {closed_s:.1f} s"
    )
    assert kills > 0


def running(smoke: SmokeTest) -> "subprocess.Popen[bytes]":
    """Start the processor; returns it when it processes records."""
    processor = smoke.processor()

    def runs() -> bool:
        printed = smoke.printed("processor")
        assert processor.poll() is None, printed[-2_000:]
        return RUNS in printed

    wait_for("the processor runs", runs, RUNS_LIMIT_S)
    return processor


def verified(smoke: SmokeTest, driver: "subprocess.Popen[bytes]", lasts_s: float) -> int:
    """Wait until the driver has verified all results; returns the number of records."""
    assert driver.wait(VERIFIED_LIMIT_S + lasts_s) == 0, smoke.printed("driver")[-2_000:]
    verdict = smoke.printed("driver").rpartition("Result Verification")[2]
    assert re.search(r"^SUCCESS$", verdict, re.MULTILINE), verdict
    (records,) = re.findall(r"recordProcessed=(\d+)", verdict)
    return int(records)


def close(smoke: SmokeTest, processor: "subprocess.Popen[bytes]") -> float:
    """End the processor, which closes its tasks, producers and consumers; returns the seconds that
    it took."""
    began_s = time.monotonic()
    processor.terminate()
    processor.wait(CLOSED_LIMIT_S)
    closed_s = time.monotonic() - began_s
    printed = smoke.printed("processor")
    # On a busy machine it takes longer to start than the minute after which it prints this.
    assert FAILED not in printed.replace(f"{FAILED}: Didn't start in one minute", "")
    assert CLOSED in printed, printed[-2_000:]
    return closed_s
