"""The transactional clients of a run at three brokers of this machine, one of which is killed."""

import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from e2e import measured
from e2e.chaos import transactors
from e2e.chaos.controls import missed_of_transactions
from e2e.chaos.ledger import Ledger
from e2e.chaos.readers import ASK_LIMIT_S
from e2e.chaos.run import judged_transactions
from e2e.chaos.transactions import Outcomes, Transactions, outcomes
from e2e.clients.topics import create_topic
from e2e.kafka.members import wait_for, wait_whole
from e2e.long_form import LONG_FORM
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.sim.history import Kind
from e2e.transactions.cluster import SETTINGS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"
DOWN_S = 3.0
LATE_TIMEOUT_S = transactors.LATE_TIMEOUT_MS / 1000
LIMIT_S = 180


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster", SETTINGS) as one:
        create_topic(one.bootstrap, TOPIC, 1, replicas=SIZE)
        wait_whole(one, SIZE, replicas=SIZE)
        yield one


@LONG_FORM
def test_nothing_is_torn_when_brokers_are_killed(
    cluster: LoopbackCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactors, "LATE_PAUSE_S", 1.0)
    ledger = Ledger(TOPIC, 1)
    load = Transactions(cluster.bootstrap, ledger)
    load.start()
    try:
        wait_for("all transactional ids have begun", load.have_begun, LIMIT_S)
        for broker_id in cluster.brokers:
            before = outcomes(load.noted)
            cluster.kill(broker_id)
            time.sleep(DOWN_S)
            cluster.start_again(broker_id)
            wait_whole(cluster, SIZE, replicas=SIZE)
            wait_for(
                "transactions are committed again",
                lambda enough=before.committed + 10: outcomes(load.noted).committed >= enough,  # type: ignore[misc]
                LIMIT_S,
            )
        wait_for("transactions end in every way", lambda: is_varied(load), LIMIT_S)
    except BaseException:
        load.abandon()
        raise
    load.ask_to_stop()
    load.wait_stopped()
    volumes = {number: cluster.volume(number) for number in cluster.brokers}
    anomalies = judged_transactions(load, volumes, tmp_path)
    measured.note(f"{SIZE} brokers killed: {outcomes(load.noted).text}, {len(anomalies)} anomalies")
    assert (ledger.errors, anomalies) == ([], [])
    assert missed_of_transactions(load.history) == frozenset()
    check_covered(load)


def is_varied(load: Transactions) -> bool:
    """Whether transactions ended in every way that does not depend on the moment of a kill."""
    found = outcomes(load.noted)
    is_fenced_late = any(one.is_late for one in load.noted.fences)
    return (
        is_fenced_late and found.fenced > 2 and min(found[: Outcomes._fields.index("unknown")]) > 0
    )


def check_covered(load: Transactions) -> None:
    """Check that the history has what the checkers judge."""
    noted, history = load.noted, load.history
    records = {value for found in history.final.values() for _, value in found}
    committed = {value for found in noted.final.values() for _, value in found}
    assert committed < records, "nothing was aborted"
    read = {one.value for one in history.events if one.kind is Kind.READ}
    assert read == records
    assert {one.reader for one in noted.pieces if one.records} == {
        one.name for one in load.committed
    }
    assert any(one.name for one in noted.offsets), "no offset was committed"
    assert {one.transactional_id for one in noted.given} == {*load.transactional_ids}
    assert len(history.replicas) == SIZE * load.ledger.partitions
    assert {one.partition for one in noted.stables} == {*load.ledger.labels}
    assert held_up(load), "no last stable offset was asked for while a transaction was left open"
    assert all(stable <= begin for stable, begin in held_up(load)), "they were high watermarks"


def held_up(load: Transactions) -> list[tuple[int, int]]:
    """Each last stable offset that was found while a transaction was left to time out, and the
    transaction's first offset in that partition."""
    noted, history = load.noted, load.history
    late = {one.process for one in noted.fences if one.is_late}
    found: list[tuple[int, int]] = []
    for one in noted.transactions:
        # Only those write to one partition.
        is_left = one.process in late and len(one.records) == 1 and one.commit_asked_s < inf
        if not is_left:
            continue
        ((label, (first, *_)),) = one.records.items()
        acked_s = next(
            event.at_s
            for event in history.events
            if event.kind is Kind.ACKED and event.value == first
        )
        begin = next(offset for offset, value in history.final[label] if value == first)
        found += [
            (stable.offset, begin)
            for stable in noted.stables
            if stable.partition == label
            # A question is answered within two seconds, or not noted.
            and acked_s + ASK_LIMIT_S < stable.at_s < one.began_s + LATE_TIMEOUT_S
        ]
    return found
