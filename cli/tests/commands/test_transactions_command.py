"""`chiplog transactions` against a real broker and a real producer."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

LIMIT_S = 60


@contextmanager
def in_transaction(broker: StandaloneBroker, topic: str, name: str) -> Iterator[Producer]:
    """A producer with an open transaction, which has one record."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"a", partition=0)
    assert producer.flush(LIMIT_S) == 0
    yield producer


def told(chiplog: Chiplog, *arguments: str) -> list[dict[str, Any]]:
    result = chiplog("transactions", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_an_open_transaction(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic(2)
    with in_transaction(broker, name, "open-one") as producer:
        (listed,) = told(chiplog, "list", "--transactional-id-pattern=open-.*")
        assert (listed["transactionalId"], listed["state"]) == ("open-one", "Ongoing")
        producer_id = str(listed["producerId"])
        assert told(chiplog, "list", "--producer-id", producer_id, "--state=Ongoing") == [listed]
        assert told(chiplog, "list", "--producer-id", producer_id, "--state=Empty") == []
        assert told(chiplog, "list", "--producer-id", producer_id, "--duration-filter=1h") == []
        (described,) = told(chiplog, "describe", "open-one")
        assert described["partitions"] == [{"topic": name, "partition": 0}]
        assert 0 <= described["durationMs"] < LIMIT_S * 1000
        (writing,) = told(chiplog, "describe-producers", f"{name}:0")
        assert (writing["producerId"], writing["startOffset"]) == (listed["producerId"], 0)
        assert told(chiplog, "find-hanging", name, "--max-transaction-timeout=1ms") == []
        refused = chiplog("transactions", "abort", f"{name}:0", "--start-offset=0")
        assert refused.exit_code == 1
        assert "does not hang: its coordinator will end it" in refused.stderr
        producer.commit_transaction(LIMIT_S)
    (writing,) = told(chiplog, "describe-producers", f"{name}:0")
    assert writing["startOffset"] is None


def test_a_transaction_is_aborted_in_one_partition(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic(1)
    with in_transaction(broker, name, "stuck") as producer:
        aborted = chiplog("transactions", "abort", f"{name}:0", "--start-offset=0", "--force")
        assert aborted.exit_code == 0, aborted.output
        assert aborted.stdout.endswith(f"in {name}-0 that began at offset 0.\n")
        (writing,) = told(chiplog, "describe-producers", f"{name}:0")
        assert (writing["startOffset"], writing["coordinatorEpoch"]) == (None, 0)
        producer.abort_transaction(LIMIT_S)


def test_what_does_not_exist(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(1)
    for arguments, reason in (
        (("describe", "nobody"), "(TRANSACTIONAL_ID_NOT_FOUND): `chiplog transactions list`"),
        (("list", "--state=Odd"), "there is no state 'Odd': the states are Empty, Ongoing,"),
        (("list", "--transactional-id-pattern=("), "(INVALID_REGULAR_EXPRESSION): correct"),
        (("abort", f"{name}:0", "--start-offset=9"), "is open that begins at offset 9"),
        (("describe-producers", f"{name}:7"), "has no partition 7"),
        (("describe-producers", "absent:0"), "topic 'absent' does not exist"),
    ):
        refused = chiplog("transactions", *arguments)
        assert refused.exit_code == 1, refused.output
        assert reason in refused.stderr
    wrong = chiplog("transactions", "describe-producers", name)
    assert wrong.exit_code == 2
    assert "is not one partition: write it like orders:0" in wrong.stderr
