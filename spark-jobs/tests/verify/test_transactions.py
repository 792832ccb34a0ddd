"""Checks of transactions, batch by batch: what is legitimate is not reported, what is wrong is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.covered import Range
from chiplog_spark.verify.facts import UNKNOWN, Batch, Control, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.judge import After, Judge
from chiplog_spark.verify.reports import Found
from chiplog_spark.verify.transactions import DELIVERED, SKIPPED
from chiplog_wire.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from tests.verify.logs import Log, batch, copies, facts_of, judged, named

RECORDS = Control.RECORDS


def one(
    base: int, producer: int, control: Control = RECORDS, *, epoch: int = 0, skipped: int = UNKNOWN
) -> Batch:
    """A batch of one record of a transaction, or a control batch."""
    attributes = TRANSACTIONAL_MASK | (CONTROL_MASK if control is not RECORDS else 0)
    return batch(base, 1)._replace(
        attributes=attributes,
        producer_id=producer,
        producer_epoch=epoch,
        control=control,
        skipped=skipped,
    )


def reported_by_one(
    log: Log, *, stable: int = UNKNOWN, late: int = UNKNOWN, compacts: bool = False
) -> list[Finding]:
    """The findings about one replica, whose broker reports these last stable offsets."""
    facts = replace(facts_of(log, (1,)), compacts=compacts)
    replicas = tuple(
        replace(known, stable_offset=stable, late_stable_offset=late) for known in facts.replicas
    )
    return judged(replace(facts, replicas=replicas), {1: log})


@st.composite
def transactional_logs(draw: st.DrawFn) -> tuple[Log, int]:
    """A log of several producers as a broker writes and lists it, and its last stable offset."""
    open_ones: dict[int, list[int]] = {}
    found: Log = []
    for _ in range(draw(st.integers(1, 25))):
        base, producer = len(found), draw(st.integers(1, 4))
        kind = draw(st.sampled_from(list(Control)[:3]))
        found.append(one(base, producer, kind))
        if kind is RECORDS:
            open_ones.setdefault(producer, []).append(base)
        else:
            for offset in open_ones.pop(producer, []):
                found[offset] = found[offset]._replace(skipped=int(kind is Control.ABORT))
    return found, min((offsets[0] for offsets in open_ones.values()), default=len(found))


@given(transactional_logs())
def test_a_log_with_its_own_last_stable_offset_and_list_is_whole(drawn: tuple[Log, int]) -> None:
    log, stable = drawn
    assert reported_by_one(log, stable=stable, late=stable) == []
    # A request before the end offset may be older, one after it may be newer.
    assert reported_by_one(log, stable=0, late=len(log) + 5) == []
    assert reported_by_one(log) == []


@given(transactional_logs(), st.data())
def test_another_last_stable_offset_is_reported(
    drawn: tuple[Log, int], data: st.DataObject
) -> None:
    log, stable = drawn
    if stable < len(log):
        high = data.draw(st.integers(stable + 1, len(log)))
        assert named(reported_by_one(log, stable=high)) == [("LastStableOffset", stable, 1)]
    if stable > 0:
        low = data.draw(st.integers(0, stable - 1))
        found = reported_by_one(log, stable=0, late=low)
        assert named(found) == [("LastStableOffset", low, 1)]


@given(transactional_logs(), st.data())
def test_one_batch_that_is_listed_wrongly_is_reported(
    drawn: tuple[Log, int], data: st.DataObject
) -> None:
    log, _ = drawn
    ended = [at for at, found in enumerate(log) if found.skipped != UNKNOWN]
    if not ended:
        return
    at = data.draw(st.sampled_from(ended))
    log[at] = log[at]._replace(skipped=1 - log[at].skipped)
    assert named(reported_by_one(log)) == [("TransactionIndex", at, 1)]


def test_what_is_not_read_leaves_transactions_unknown() -> None:
    """A marker may be in the part that was not read, so the next one proves nothing."""
    log = [
        one(0, 7, skipped=SKIPPED),
        one(1, 7, Control.ABORT),
        one(2, 7, skipped=DELIVERED),
        one(3, 7, Control.COMMIT),
    ]
    facts = facts_of(log, (1,))
    replicas = tuple(replace(known, stable_offset=4) for known in facts.replicas)
    facts = replace(facts, replicas=replicas)
    covered = {1: [Range(1, 0, 1), Range(1, 2, 4)]}
    assert judged(facts, {1: [log[0], *log[2:]]}, covered) == []
    # All of it is to be read, and a batch is missing.
    gap = judged(facts, {1: [log[0], *log[2:]]})
    assert named(gap) == [("OffsetGap", 1, 1)]


def test_a_damaged_marker_is_not_read() -> None:
    log = [one(0, 7, skipped=SKIPPED), one(1, 7, Control.COMMIT)]
    log[1] = log[1]._replace(computed_crc=1)
    assert named(reported_by_one(log, stable=2)) == [("Crc", 1, 1)]


@pytest.mark.parametrize("control", [Control.UNREADABLE, Control.EMPTY])
def test_a_control_batch_that_is_no_marker(control: Control) -> None:
    log = [one(0, 7), one(1, 7, control)]
    assert named(reported_by_one(log)) == [("TransactionMarker", 1, 1)]
    expected = [] if control is Control.EMPTY else [("TransactionMarker", 1, 1)]
    assert named(reported_by_one(log, compacts=True)) == expected


def test_a_marker_of_an_older_epoch() -> None:
    log = [one(0, 7, epoch=3), one(1, 7, Control.COMMIT, epoch=2), one(2, 7, Control.ABORT)]
    assert named(reported_by_one(log)) == [("TransactionMarker", 1, 1)]
    # The second generation raises the epoch with the decision.
    log[1] = log[1]._replace(producer_epoch=4)
    assert reported_by_one(log) == []


def test_batches_without_records_open_nothing() -> None:
    log = [one(0, 7)._replace(record_count=0), one(1, 8)]
    assert reported_by_one(log, stable=1, late=1, compacts=True) == []


def test_only_replicas_that_are_in_sync_are_accused() -> None:
    log = [one(0, 7, skipped=DELIVERED), one(1, 7, Control.ABORT), one(2, 7)]
    facts = facts_of(log)
    assert [one[2] for one in named(judged(facts, copies(log)))] == [1, 2, 3]
    lagging = tuple(
        replace(known, in_sync=known.broker != 3, stable_offset=3) for known in facts.replicas
    )
    found = named(judged(replace(facts, replicas=lagging), copies(log)))
    assert sorted(found) == [
        *(("LastStableOffset", 2, broker) for broker in (1, 2)),
        *(("TransactionIndex", 0, broker) for broker in (1, 2)),
    ]


@pytest.mark.parametrize(
    ("facts_more", "after", "counts"),
    [
        ({}, After(start_offsets={1: 0}), 1),
        ({}, After(start_offsets={1: 5}), 1),
        ({}, After(start_offsets={1: 6}), 0),  # retention was at work
        ({}, After(), 0),  # the broker did not answer
        ({"compacts": True}, After(start_offsets={1: 0}, clean_offsets={1: 3}), 1),
        ({"compacts": True}, After(start_offsets={1: 0}, clean_offsets={1: 5}), 1),
        ({"compacts": True}, After(start_offsets={1: 0}, clean_offsets={1: 6}), 0),
        ({"compacts": True}, After(start_offsets={1: 0}), 0),
    ],
)
@pytest.mark.parametrize("check", [Check.TRANSACTION_INDEX, Check.LAST_STABLE_OFFSET])
def test_markers_that_were_removed_during_the_read_explain_a_finding(
    check: Check, facts_more: dict[str, bool], after: After, counts: int
) -> None:
    facts: PartitionFacts = replace(facts_of([batch(0, 9)], (1,)), **facts_more)  # type: ignore[arg-type]
    replicas = tuple(replace(known, clean_offset=3) for known in facts.replicas)
    judge = Judge({("orders", 0): replace(facts, replicas=replicas)}, frozenset(Check))
    judge.add_found(Found(finding=Finding(check, "orders", 0, 5, 1, "")))
    assert judge.verdict({("orders", 0): after}).total == counts
