"""Verdicts on transactions as clients could have left them: what is planted must be seen."""

from collections.abc import Callable
from math import inf

import pytest

from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from e2e.chaos.committed_readers import CommittedLibrdkafkaReader
from e2e.chaos.controls import MUST_BE_SEEN_OF_TRANSACTIONS, missed_of_transactions
from e2e.chaos.ledger import Ledger
from e2e.chaos.transactions import Outcomes, identities, outcomes
from e2e.sim.checkers import check
from e2e.sim.history import Batch, Event, History, Kind, Replica
from e2e.sim.transactions.history import (
    CommittedOffset,
    Fence,
    Initialized,
    Opening,
    Stable,
    Transaction,
)

LEDGER = Ledger("orders", 2)
A, B = LEDGER.labels
ID = "orders-java"


def transaction(process: str, number: int, **fields: object) -> Transaction:
    """A transaction that writes a record to both partitions; it began at `number` s."""
    name = f"{ID}#{process}/{number}"
    known: dict[str, object] = {
        "name": name,
        "transactional_id": ID,
        "process": f"{ID}#{process}",
        "producer_id": -1,
        "epoch": -1,
        "began_s": float(number),
        "records": {A: [f"{name}/0/0"], B: [f"{name}/1/0"]},
    }
    return Transaction(**{**known, **fields})  # type: ignore[arg-type]


def history() -> History:
    """Transactions 1 and 5 are committed, 2 is aborted, 3 is left open, and 4 is fenced.

    Each has the offset of its number in both partitions, and its marker the next one.
    """
    found = History(with_markers=frozenset({A, B}))
    noted = found.transactions
    noted.transactions += [
        transaction("1", 1, commit_asked_s=1.4, ended_s=1.5, offset=1),
        transaction("1", 2, abort_asked_s=2.4, ended_s=2.5, offset=2),
        transaction("1", 3),
        transaction("2", 4, commit_asked_s=4.5),
        transaction("3", 5, commit_asked_s=5.4, ended_s=5.5),
    ]
    for process, from_s in (("1", 0.5), ("2", 3.5), ("3", 4.3)):
        name = f"{ID}#{process}"
        noted.openings.append(Opening(ID, name, from_s, from_s + 0.1))
        noted.initialized.append(Initialized(from_s, from_s + 0.1, ID, name, -1, -1, is_new=True))
    noted.fences.append(Fence(4.6, ID, f"{ID}#2", is_late=False))
    for partition, label in enumerate((A, B)):
        all_ = [
            (2 * number, one.records[label][0]) for number, one in enumerate(noted.transactions)
        ]
        found.final[label], found.starts[label], found.ends[label] = all_, 0, 10
        noted.final[label] = [all_[0], all_[4]]
        for offset, value in all_:
            process = value.partition("/")[0]
            found.events.append(Event(offset / 2, Kind.SENT, process, label, value))
            found.events.append(Event(offset / 2, Kind.ACKED, process, label, value))
            found.events.append(Event(offset / 2, Kind.READ, "all", label, value, offset))
        reader = CommittedLibrdkafkaReader("nowhere", LEDGER, noted)
        for offset, value in noted.final[label]:
            reader.has_read(partition, value.encode(), offset)
        reader.note(partition, 10, ())
        noted.stables += [Stable(1.5, "asker", label, 2), Stable(6.0, "asker", label, 10)]
    noted.offsets += [
        CommittedOffset(0.1, 0.2, ID, -1, ""),
        CommittedOffset(6.0, 6.1, ID, 1, f"{ID}#1/1"),
    ]
    noted.last_offsets[ID] = noted.offsets[-1]
    return found


def names(found: History) -> set[str]:
    return {one.name for one in check(found)}


def test_transactions_in_order_have_no_anomaly_and_show_all_that_is_planted_in_them() -> None:
    one = history()
    assert check(one) == []
    assert missed_of_transactions(one) == frozenset()
    assert check(one) == [], "planting leaves the history as it was"


def test_a_history_too_short_to_plant_anything_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match="too few transactions"):
        missed_of_transactions(History())


def test_a_checker_that_sees_nothing_makes_the_run_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.chaos.controls.check", lambda _: [])
    assert missed_of_transactions(history()) == MUST_BE_SEEN_OF_TRANSACTIONS


def _aborted_and_lost(one: History) -> None:
    """Aborted records stay in the log: readers of all records get them."""
    one.final[A].pop(1)
    one.events = [event for event in one.events if event.kind is not Kind.READ]


def _skipped_by_reader_of_all(one: History) -> None:
    one.events = [
        event
        for event in one.events
        if not (event.kind is Kind.READ and event.partition == A and event.offset == 2)
    ]


def _dirty(one: History) -> None:
    one.events.append(Event(9.0, Kind.READ, "all", A, "x", 10))


def _never_arrived(one: History) -> None:
    """The reader gets nothing where the last record is."""
    noted = one.transactions
    noted.pieces = [
        piece._replace(records=()) if piece.partition == B and piece.from_offset == 1 else piece
        for piece in noted.pieces
    ]


def _left_open_and_read(one: History) -> None:
    value = one.transactions.transactions[2].records[A][0]
    one.transactions.final[A].insert(1, (4, value))


def _fenced_and_committed(one: History) -> None:
    for label in (A, B):
        value = one.transactions.transactions[3].records[label][0]
        one.transactions.final[label].insert(1, (6, value))


def _two_processes_of_one_epoch(one: History) -> None:
    for process, at in (("1", 0), ("3", 8)):
        batch = bytes(
            build_batch(
                [NewRecord(b"any")],
                BatchOptions(producer=Producer(producer_id=7, epoch=3, base_sequence=0)),
            )
        )
        value = next(
            value for offset, value in one.final[A] if offset == at and f"#{process}/" in value
        )
        stored = Batch(at, at, 0, batch, ((at, value),))
        one.replicas.append(
            Replica(broker_id=at, partition="elsewhere", is_in_sync=False, batches=(stored,))
        )
    one.transactions.given.extend(identities(one))


def _unknown_and_torn(one: History) -> None:
    one.transactions.transactions[4].ended_s = inf
    one.transactions.final[A].pop()


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("lost-write", _aborted_and_lost),
        ("poll-skip", _skipped_by_reader_of_all),
        ("dirty-read", _dirty),
        ("unlike-final", _never_arrived),
        ("aborted-read", _left_open_and_read),
        ("zombie-committed", _fenced_and_committed),
        ("doubled-identity", _two_processes_of_one_epoch),
        ("torn-transaction", _unknown_and_torn),
        (
            "lost-transaction",
            lambda one: [final.pop() for final in one.transactions.final.values()],
        ),
        ("stable-offset-back", lambda one: one.transactions.stables.reverse()),
        ("fenced-for-nothing", lambda one: one.transactions.openings.clear()),
        (
            "aborted-offset",
            lambda one: one.transactions.offsets.append(
                CommittedOffset(7.0, 7.1, ID, 2, f"{ID}#1/2")
            ),
        ),
        (
            "lost-offset",
            lambda one: one.transactions.offsets.append(CommittedOffset(7.0, 7.1, ID, -1, "")),
        ),
    ],
)
def test_each_anomaly_is_found(name: str, breaks: Callable[[History], object]) -> None:
    one = history()
    breaks(one)
    assert name in names(one)


def test_a_commit_without_an_answer_may_be_there_or_not() -> None:
    one = history()
    one.transactions.transactions[4].ended_s = inf
    assert names(one) == set()
    for final in one.transactions.final.values():
        final.pop()
    one.transactions.pieces = [
        piece._replace(records=()) if piece.from_offset == 1 else piece
        for piece in one.transactions.pieces
    ]
    assert names(one) == set()


def test_outcomes_are_counted_as_their_producers_know_them() -> None:
    one = history().transactions
    assert outcomes(one) == Outcomes(committed=2, aborted=1, left=1, fenced=1)
    one.transactions[4].ended_s = inf
    assert outcomes(one) == Outcomes(committed=1, aborted=1, left=1, fenced=1, unknown=1)
    assert outcomes(one).text == (
        "1 transactions committed, 1 aborted, 1 left open, 1 fenced, 1 unknown"
    )
