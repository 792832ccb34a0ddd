"""Kafka's StreamsSmokeTest with exactly_once_v2, whose driver verifies all results itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import measured
from e2e.clients.topics import create_topics
from e2e.kafka.members import wait_for
from e2e.long_form import LONG_FORM
from e2e.loopback.cluster import SIZE
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.smoke import CLOSED, FAILED, RUNS, TOPICS, SmokeTest

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(1_200)]

PARTITIONS = 5
LONG_S, LONG_RECORDS = 300, 5_000
# Hang guards: the driver itself gives up after six minutes of verification.
RUNS_LIMIT_S, VERIFIED_LIMIT_S, CLOSED_LIMIT_S = 300, 420, 90


@pytest.fixture
def smoke(cluster: ThreeBrokers, tmp_path: Path) -> Iterator[SmokeTest]:
    create_topics(cluster.bootstrap, TOPICS, PARTITIONS, replicas=SIZE)
    one = SmokeTest(cluster.bootstrap, tmp_path)
    yield one
    one.kill()


@LONG_FORM
@pytest.mark.parametrize("lasts_s", [None, LONG_S], ids=["Kafka's driver", "for five minutes"])
def test_the_driver_verifies_every_result(smoke: SmokeTest, lasts_s: int | None) -> None:
    processor = smoke.processor()

    def runs() -> bool:
        printed = smoke.printed("processor")
        assert processor.poll() is None, printed[-2_000:]
        return RUNS in printed

    wait_for("the processor runs", runs, RUNS_LIMIT_S)
    driver = smoke.long_driver(lasts_s, LONG_RECORDS) if lasts_s else smoke.driver()
    assert driver.wait(VERIFIED_LIMIT_S + LONG_S) == 0, smoke.printed("driver")[-2_000:]
    verdict = smoke.printed("driver").rpartition("Result Verification")[2]
    assert re.search(r"^SUCCESS$", verdict, re.MULTILINE), verdict
    processor.terminate()
    processor.wait(CLOSED_LIMIT_S)
    printed = smoke.printed("processor")
    # On a busy machine it takes longer to start than the minute after which it prints this.
    assert FAILED not in printed.replace(f"{FAILED}: Didn't start in one minute", "")
    assert CLOSED in printed, printed[-2_000:]
    (records,) = re.findall(r"recordProcessed=(\d+)", verdict)
    measured.note(f"StreamsSmokeTest, exactly_once_v2: SUCCESS with {records} records")
