"""The answers that only a coordinator may give which is certain that it still is one."""

import pytest

from chiplog_core.transactions.adding import add
from chiplog_core.transactions.answers import Decision, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import end
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.requests import Add, End
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import FIRST_GENERATION, SECOND_GENERATION
from tests.transactions.coordinator import BILLS, ORDERS, stored_with

PRODUCER, OTHER = Producer(7, 3), Producer(7, 4)
ONGOING = Present(stored=stored_with(PRODUCER, TransactionState.ONGOING))
COMMITTED = Present(stored=stored_with(PRODUCER, TransactionState.COMPLETE_COMMIT))


def ended(present: Present, producer: Producer, version: int, *, is_commit: bool) -> Decision:
    request = End(producer=producer, is_commit=is_commit, transaction_version=version)
    return end(present, request, lambda: 1, 1)


def added(present: Present, producer: Producer, version: int) -> Decision:
    request = Add(producer=producer, partitions=frozenset({ORDERS}), transaction_version=version)
    return add(present, request, 1)


@pytest.mark.parametrize("version", [FIRST_GENERATION, SECOND_GENERATION])
def test_refusals_need_proof(version: int) -> None:
    """A later coordinator may have given the producer its epoch, or begun the transaction."""
    for decision in (
        ended(ONGOING, OTHER, version, is_commit=True),
        ended(COMMITTED, PRODUCER, FIRST_GENERATION, is_commit=False),
        ended(Present(stored=None), PRODUCER, version, is_commit=True),
        added(ONGOING, OTHER, version),
    ):
        assert decision.answer.code is not Code.NONE
        assert decision.needs_proof


def test_what_may_be_of_the_next_transaction_needs_proof() -> None:
    assert ended(COMMITTED, PRODUCER, FIRST_GENERATION, is_commit=True).needs_proof
    assert added(ONGOING, PRODUCER, FIRST_GENERATION).needs_proof


def test_other_answers_need_none() -> None:
    waits = ended(Present(stored=ONGOING.stored, is_pending=True), OTHER, 2, is_commit=True)
    assert waits.answer.code is Code.CONCURRENT_TRANSACTIONS
    other = Add(producer=PRODUCER, partitions=frozenset({BILLS}), transaction_version=0)
    for decision in (
        waits,
        added(ONGOING, PRODUCER, SECOND_GENERATION),
        # With a record, the record is the proof.
        ended(ONGOING, PRODUCER, FIRST_GENERATION, is_commit=True),
        add(ONGOING, other, 1),
    ):
        assert not decision.needs_proof
