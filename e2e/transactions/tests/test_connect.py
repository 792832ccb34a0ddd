"""A source connector of Kafka Connect with exactly-once support, whose worker is killed."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import pytest

from e2e import measured
from e2e.clients.topics import create_topics
from e2e.kafka.members import wait_for
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE
from e2e.transactions.client import Isolation
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.connect import Lines, Worker
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(2_400)]

WORKER, BROKER = "worker", "broker"
KILLED = ((WORKER,), (WORKER, BROKER), (BROKER,))
"""What is killed together: one after the other in the long form; the first two in the short one."""
KILLS = 12 if is_full() else 2
MOVES_LIMIT_S = 300


@pytest.fixture
def worker(cluster: ThreeBrokers, tmp_path: Path) -> Iterator[Worker]:
    one = Worker(cluster.bootstrap, tmp_path, "connect")
    compacted = {"cleanup.policy": "compact"}
    create_topics(cluster.bootstrap, list(one.topics.values()), 1, compacted, replicas=SIZE)
    yield one
    one.kill()


def test_each_line_is_written_once(
    cluster: ThreeBrokers, new_topic: NewTopic, worker: Worker, tmp_path: Path
) -> None:
    topic = new_topic(1)
    with Lines(tmp_path / "lines") as lines:
        worker.start()
        worker.read_lines(lines.file, topic)
        wait_for_commit(cluster, topic, worker)
        for killed in islice(cycle(KILLED), KILLS):
            kill(cluster, topic, worker, killed)
        lines.stop()
    wait_for_last(cluster, topic, lines, Isolation.UNCOMMITTED)
    worker.pause()
    wait_for_last(cluster, topic, lines, Isolation.COMMITTED)
    assert cluster.values(topic, 0) == lines.written
    again = sent_again(cluster, topic)
    measured.note(
        f"Kafka Connect, exactly-once source: {len(lines.written)} lines once each, in order; "
        f"{again} were sent again after {KILLS} kills of worker or broker"
    )
    assert again, "no kill had a transaction aborted"


def wait_for_commit(cluster: ThreeBrokers, topic: str, worker: Worker) -> None:
    """Wait until the connector has committed more lines."""
    before = len(cluster.values(topic, 0))

    def has_more() -> bool:
        assert worker.process.runs, worker.process.tail()
        return len(cluster.values(topic, 0)) > before

    try:
        wait_for("more lines are committed", has_more, MOVES_LIMIT_S)
    except TimeoutError as late:
        raise AssertionError(f"{late}\n{worker.process.tail()}") from late


def kill_in_transaction(cluster: ThreeBrokers, topic: str, worker: Worker) -> None:
    """Kill the worker while it has lines in a transaction that is open.

    It is stopped meanwhile, so that it does not commit them between the look and the kill.
    """

    def stops_in_transaction() -> bool:
        worker.freeze()
        sent = cluster.values(topic, 0, Isolation.UNCOMMITTED)
        if sent[-1] != cluster.values(topic, 0)[-1]:
            return True
        worker.thaw()
        time.sleep(1)
        return False

    wait_for("the worker has a transaction open", stops_in_transaction, MOVES_LIMIT_S)
    worker.kill()


def wait_for_last(cluster: ThreeBrokers, topic: str, lines: Lines, isolation: Isolation) -> None:
    """Wait until a consumer with this isolation level gets the last line."""
    wait_for(
        f"the last line, {isolation}",
        lambda: cluster.values(topic, 0, isolation)[-1] == lines.written[-1],
        MOVES_LIMIT_S,
    )


def kill(cluster: ThreeBrokers, topic: str, worker: Worker, killed: tuple[str, ...]) -> None:
    """Kill the worker, the broker that coordinates its transactions, or both.

    The worker is started again at once, the broker when the connector has continued without it.
    """
    if WORKER in killed:
        kill_in_transaction(cluster, topic, worker)
    with ExitStack() as down:
        if BROKER in killed:
            victim = cluster.coordinator_of(worker.transactional_id)
            down.enter_context(cluster.killed(victim))
        if WORKER in killed:
            worker.start()
        wait_for_commit(cluster, topic, worker)


def sent_again(cluster: ThreeBrokers, topic: str) -> int:
    """How many records lie in the topic for lines that another record has, too."""
    values = cluster.values(topic, 0, Isolation.UNCOMMITTED)
    return len(values) - len(set(values))
