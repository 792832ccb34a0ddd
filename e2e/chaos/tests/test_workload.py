"""The clients of a run at a broker by itself, which is killed meanwhile."""

from pathlib import Path

import pytest

from e2e.chaos.committed import described
from e2e.chaos.run import judged
from e2e.chaos.workload import PARTITIONS, Workload
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic
from e2e.cluster.processes import wait_until
from e2e.sim.history import Kind

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(600),
]

RECORDS = 1_500
LIMIT_S = 120
TRANSACTORS = 3
PRODUCERS = {"java", "kafka-python", "librdkafka"}
READERS = {"java-reader", "kafka-python-reader", "librdkafka-reader"}
SEATS = {"first-librdkafka", "first-kafka-python", "second-java", "second-librdkafka"}


def seated(load: Workload) -> set[str]:
    """The places whose members had commits acknowledged, by any of their processes."""
    found = load.ledger.groups.commits.copy()
    return {
        one.member.removeprefix("orders-").partition(".")[0] for one in found if one.is_acknowledged
    }


def test_three_clients_write_and_read_through_a_crash(tmp_path: Path) -> None:
    with StandaloneBroker(tmp_path / "broker") as broker:
        create_topic(broker.bootstrap, "orders", PARTITIONS)
        with Workload(broker.bootstrap, "orders", tmp_path / "clients") as load:
            for enough in (RECORDS, 2 * RECORDS):
                wait_until(
                    "records are acknowledged",
                    lambda wanted=enough: load.ledger.acknowledged() >= wanted,  # type: ignore[misc]
                    LIMIT_S,
                )
                if enough == RECORDS:
                    broker.kill()
                    broker.start()
            wait_until("every member has committed", lambda: seated(load) == SEATS, LIMIT_S)
            description = described(broker.bootstrap, "orders-first")
            load.all_is_well()
        assert description.startswith(("STABLE: {", "PREPARING_REBALANCING: {")), description
        found = judged("crash", 1, load, {1: broker.home}, tmp_path)
    found.check()
    transactions = found.transactions
    assert min(transactions.committed, transactions.aborted) >= TRANSACTORS, transactions
    events = load.history.events
    assert {one.client for one in events if one.kind is Kind.ACKED} == PRODUCERS
    assert {one.client for one in events if one.kind is Kind.SENT} == PRODUCERS
    assert {one.client for one in events if one.kind is Kind.READ} == READERS
    assert any(one.kind is Kind.END for one in events)
    # All that was sent was acknowledged, and all of it is there.
    sent = {one.value for one in events if one.kind is Kind.SENT}
    assert sent == {one.value for one in events if one.kind is Kind.ACKED}
    assert sum(map(len, load.history.final.values())) == len(sent) == found.acknowledged
