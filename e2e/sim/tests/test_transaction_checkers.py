"""Each checker of transactions finds its anomaly in a small history, and nothing in a sound one."""

from collections.abc import Callable
from copy import deepcopy
from math import inf

import pytest

from e2e.sim.checkers.transactions import CHECKERS
from e2e.sim.history import History
from e2e.sim.transactions.history import (
    CommittedOffset,
    Fence,
    Given,
    Initialized,
    Opening,
    Piece,
    Stable,
    Transaction,
)

A, B = "ledger-0/a", "ledger-1/b"


def transaction(number: int, **fields: object) -> Transaction:
    """The transaction of this number of process t1#1, which writes two records to A and one to
    B."""
    name = f"t1#1/{number}"
    known: dict[str, object] = {
        "name": name,
        "transactional_id": "t1",
        "process": "t1#1",
        "producer_id": 7,
        "epoch": 0,
        "began_s": float(number),
        "records": {A: [f"{name}/A/0", f"{name}/A/1"], B: [f"{name}/B/0"]},
        "commit_asked_s": number + 0.5,
        "ended_s": number + 0.6,
    }
    return Transaction(**{**known, **fields})  # type: ignore[arg-type]


def sound() -> History:
    """Transaction 1 is committed, 2 is aborted, 3 is committed with an offset."""
    history = History()
    noted = history.transactions
    noted.openings.append(Opening("t1", "t1#1", 0.1, 0.2))
    noted.initialized.append(Initialized(0.1, 0.2, "t1", "t1#1", 7, 0, True))
    noted.transactions += [
        transaction(1),
        transaction(2, commit_asked_s=inf, abort_asked_s=2.5, offset=1),
        transaction(3, offset=2),
    ]
    first, _, third = noted.transactions
    noted.final = {
        A: [
            (0, first.records[A][0]),
            (1, first.records[A][1]),
            (6, third.records[A][0]),
            (7, third.records[A][1]),
        ],
        B: [(0, first.records[B][0]), (4, third.records[B][0])],
    }
    noted.pieces += [
        Piece(2.0, "r", A, 0, 3, tuple(noted.final[A][:2]), 3, 5),
        Piece(4.0, "r", A, 3, 9, tuple(noted.final[A][2:]), 9, 9),
    ]
    noted.stables += [Stable(2.0, "r", A, 3), Stable(4.0, "r", A, 9)]
    noted.offsets += [
        CommittedOffset(2.7, 2.8, "t1", -1, ""),
        CommittedOffset(5.0, 5.1, "t1", 2, "t1#1/3"),
    ]
    noted.last_offsets = {"t1": noted.offsets[-1]}
    return history


def names(history: History) -> set[str]:
    return {one.name for checker in CHECKERS for one in checker(history)}


def test_nothing_in_a_sound_history() -> None:
    assert names(sound()) == set()


def _aborted(history: History) -> None:
    noted = history.transactions
    noted.pieces.append(Piece(3.0, "r", B, 1, 3, ((2, noted.transactions[1].records[B][0]),), 3, 3))


def _lost(history: History) -> None:
    history.transactions.final[B].pop()
    history.transactions.final[A][2:] = []


def _doubled(history: History) -> None:
    history.transactions.final[B].append((9, history.transactions.final[B][0][1]))


def _too_far(history: History) -> None:
    history.transactions.pieces[0] = history.transactions.pieces[0]._replace(stable=2)


def _back(history: History) -> None:
    history.transactions.stables.append(Stable(5.0, "r", A, 8))


def _reordered(history: History) -> None:
    final = history.transactions.final[B]
    final[0], final[1] = (0, final[1][1]), (4, final[0][1])


def _zombie(history: History) -> None:
    history.transactions.initialized.append(Initialized(3.1, 3.2, "t1", "t1#2", 7, 1, True))


def _aborted_offset(history: History) -> None:
    history.transactions.offsets.insert(0, CommittedOffset(2.6, 2.7, "t1", 1, "t1#1/2"))


def _lost_offset(history: History) -> None:
    history.transactions.offsets.append(CommittedOffset(6.0, 6.1, "t1", -1, ""))


def _only_records(history: History) -> None:
    history.transactions.transactions[2].ended_s = inf
    history.transactions.last_offsets["t1"] = CommittedOffset(6.0, 6.1, "t1", -1, "")


def _refused(history: History) -> None:
    history.transactions.refused.append((1.0, "t1#1/1 end", "invalid_txn_state"))


def _fenced(history: History) -> None:
    history.transactions.fences.append(Fence(5.0, "t1", "t1#1", is_late=False))


def _same_identity(history: History) -> None:
    history.transactions.given.append(Given(5.0, "t1", "t1#2", 7, 0))


def _hanging(history: History) -> None:
    history.transactions.open_in.append((A, 3, 9))


def _unwell(history: History) -> None:
    history.transactions.unwell.append(("t1", "nothing committed"))


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("aborted-read", _aborted),
        ("lost-transaction", _lost),
        ("torn-transaction", lambda history: history.transactions.final[B].pop()),
        ("torn-transaction", _only_records),
        ("doubled-record", _doubled),
        ("unlike-final", lambda history: history.transactions.final[A].pop()),
        ("stable-offset-wrong", _too_far),
        ("stable-offset-back", _back),
        ("transactions-reordered", _reordered),
        ("zombie-committed", _zombie),
        ("aborted-offset", _aborted_offset),
        ("lost-offset", _lost_offset),
        ("transaction-refused", _refused),
        ("hanging-transaction", _hanging),
        ("fenced-for-nothing", _fenced),
        ("doubled-identity", _same_identity),
        ("transactor-unwell", _unwell),
    ],
)
def test_each_anomaly_is_found(name: str, breaks: Callable[[History], object]) -> None:
    history = deepcopy(sound())
    breaks(history)
    assert name in names(history)


def test_a_late_request_of_an_earlier_transaction_is_no_anomaly_where_epochs_are_reused() -> None:
    history = sound()
    history.transactions.final[B].pop()
    history.transactions.final[A].pop()
    history.transactions.pieces.pop()
    history.transactions.transactions[2].may_get_late_requests = True
    assert names(history) == set()


@pytest.mark.parametrize(
    "opening",
    [
        Opening("t1", "t1#2", 3.0),
        Opening("t1", "t1#2", 3.0, 3.1),
        Opening("t1", "t1#0", 0.05),
        Opening("t1", "t1#1", 0.05),
    ],
)
def test_what_may_fence_a_process(opening: Opening) -> None:
    """A later process, and late requests of processes before it and of its own."""
    history = sound()
    _fenced(history)
    history.transactions.openings.append(opening)
    assert "fenced-for-nothing" not in names(history)


def test_what_a_client_does_not_show_is_not_judged() -> None:
    history = sound()
    noted = history.transactions
    noted.pieces = [one._replace(stable=-1, high_watermark=-1) for one in noted.pieces]
    noted.initialized = [
        Initialized(0.1, 0.2, "t1", "t1#1", -1, -1, True),
        Initialized(6.1, 6.2, "t1", "t1#2", -1, -1, True),
    ]
    assert names(history) == set()
    noted.final[A].pop()
    assert "unlike-final" in names(history), "records are judged all the same"


def test_a_transaction_that_timed_out_fences_its_process() -> None:
    history = sound()
    history.transactions.fences.append(Fence(5.0, "t1", "t1#1", is_late=True))
    assert names(history) == set()
