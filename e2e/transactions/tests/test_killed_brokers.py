"""A broker is killed while every client has a transaction to commit and one to abort."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from confluent_kafka.cimpl import NewTopic

from e2e.kafka.members import leader_of
from e2e.transactions.client import (
    LIMIT_S,
    FencedError,
    Isolation,
    Producer,
    TransactionalClient,
    TransactionFailedError,
)
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

END_LIMIT_S = 240
"""Hang guard of all clients together."""
BEFORE, AFTER, LAST = b"before the kill", b"after the kill", b"last"


@dataclass(slots=True)
class Case:
    """A producer with an open transaction; its topic has its transactional id as name."""

    client: TransactionalClient
    topic: str
    commits: bool
    producer: Producer

    def begin(self) -> None:
        """A transaction with a record that is acknowledged."""
        self.producer.begin()
        self.producer.send(self.topic, 0, [BEFORE])
        self.producer.flush()

    def end(self) -> list[bytes]:
        """Write another record and end the transaction, then commit another one.

        Returns what must be read then. A client may give up what it wanted to commit, with an error
        after which it can abort, but not with that of a fenced producer.
        """
        committed = False
        try:
            self.producer.send(self.topic, 0, [AFTER])
            if self.commits:
                self.producer.commit()
                committed = True
        except FencedError:
            raise
        except TransactionFailedError as failed:
            print(f"{self.topic}: {failed}")
        if not committed:
            self.producer.abort()
        self.producer.begin()
        self.producer.send(self.topic, 0, [LAST])
        self.producer.commit()
        return [BEFORE, AFTER, LAST] if committed else [LAST]


class Scene:
    """What a test kills: a broker, and for each client two ids and topics that it concerns."""

    def __init__(self, cluster: ThreeBrokers, name: str) -> None:
        self.cluster, self.name = cluster, name
        # The first producer of a cluster makes `__transaction_state`.
        with CLIENTS[0].producer(cluster.bootstrap, f"{name}-first"):
            self.victim = cluster.coordinator_of(f"{name}-first")

    def cases(self, coordinated: bool, led: bool, opened: ExitStack) -> Iterator[Case]:
        """For each client a transaction to commit and one to abort.

        `coordinated` and `led` say whether the broker that is killed coordinates their ids and
        leads their topics.
        """
        other = self.cluster.other_coordinator(self.victim)
        coordinator, leader = (self.victim if own else other for own in (coordinated, led))
        for client in CLIENTS:
            if coordinated and not client.survives_coordinator:
                continue
            ids = self.cluster.ids_at(coordinator, f"{self.name}-{client.name}")
            for commits in (True, False):
                topic = next(ids)
                self._create(topic, leader)
                producer = client.producer(self.cluster.bootstrap, topic)
                opened.enter_context(producer)
                yield Case(client, topic, commits, producer)

    def _create(self, topic: str, leader: int) -> None:
        """A topic of one partition, which this broker leads."""
        replicas = sorted({1, 2, 3}, key=lambda broker_id: broker_id != leader)
        new = NewTopic(topic, 1, replica_assignment=[replicas])
        self.cluster.admin.create_topics([new], operation_timeout=LIMIT_S)[topic].result(LIMIT_S)
        assert leader_of(self.cluster.members, topic, 0) == leader


@pytest.mark.parametrize(
    ("killed", "coordinated", "led"),
    [("leader", False, True), ("coordinator", True, False), ("both", True, True)],
    ids=["the leader", "the coordinator", "both in one"],
)
def test_transactions_end_cleanly(
    cluster: ThreeBrokers, killed: str, *, coordinated: bool, led: bool
) -> None:
    scene = Scene(cluster, f"killed-{killed}")
    with ExitStack() as opened:
        cases = list(scene.cases(coordinated, led, opened))
        each(cases, Case.begin)
        with cluster.killed(scene.victim):
            expected = each(cases, Case.end)
    for case, values in zip(cases, expected, strict=True):
        found = case.client.read(cluster.bootstrap, case.topic, 0, len(values), Isolation.COMMITTED)
        assert found == values, case.topic


def each(cases: list[Case], do: Callable[[Case], list[bytes] | None]) -> list[list[bytes]]:
    """Do it for all cases at the same time; returns the results. Raises all errors together."""
    asked = [in_thread(case, do) for case in cases]
    until_s, found, failed = time.monotonic() + END_LIMIT_S, [], []
    for case, one in zip(cases, asked, strict=True):
        try:
            found.append(one.result(max(until_s - time.monotonic(), 0)) or [])
        except Exception as error:  # noqa: BLE001 - it is raised with those of the other clients
            failed.append(AssertionError(f"{case.topic}: {error!r}"))
    if failed:
        raise ExceptionGroup("clients that failed", failed)
    return found


def in_thread(case: Case, do: Callable[[Case], list[bytes] | None]) -> "Future[list[bytes] | None]":
    """The result to come. Nobody waits for the thread: some clients may wait without end."""
    done: Future[list[bytes] | None] = Future()

    def run() -> None:
        try:
            done.set_result(do(case))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name=case.topic).start()
    return done
