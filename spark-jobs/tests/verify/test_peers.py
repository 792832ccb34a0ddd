"""Batches of a partition on its replicas: a healthy log gives nothing, each defect its name."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.covered import Range
from chiplog_spark.verify.facts import EpochHistory
from chiplog_spark.verify.findings import explained_by_retention

from .logs import NOW_MS, Log, batch, copies, facts_of, judged, logs, named

THREE = [batch(0, 5, 0), batch(5, 5, 0), batch(10, 5, 1), batch(15, 5, 1), batch(20, 5, 2)]


@given(logs())
def test_a_healthy_partition_gives_nothing(log: Log) -> None:
    assert judged(facts_of(log), copies(log)) == []
    assert judged(facts_of(log, (7,)), copies(log, (7,))) == []


@given(logs(), st.data())
def test_what_was_not_read_is_no_loss(log: Log, data: st.DataObject) -> None:
    """The time limit ends each split of each replica somewhere."""
    facts, stored = facts_of(log), copies(log)
    covered: dict[int, list[Range]] = {}
    for broker, one in stored.items():
        read, ranges = [], []
        for each in one:
            if data.draw(st.booleans()):
                read.append(each)
                ranges.append(Range(broker, each.base_offset, each.last_offset + 1))
        stored[broker], covered[broker] = read, ranges
    assert judged(facts, stored, covered) == []


@given(logs(), st.data())
def test_a_log_that_begins_within_a_batch(log: Log, data: st.DataObject) -> None:
    start = data.draw(st.integers(log[0].base_offset, log[0].last_offset))
    facts = facts_of(log)
    moved = tuple(replace(one, start_offset=start) for one in facts.replicas)
    assert judged(replace(facts, start_offset=start, replicas=moved), copies(log)) == []


@given(logs(), st.data())
def test_a_flipped_bit(log: Log, data: st.DataObject) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    at = data.draw(st.integers(0, len(log) - 1))
    one = stored[broker][at]
    stored[broker][at] = one._replace(computed_crc=one.stored_crc ^ 1, digest=b"other")
    assert named(judged(facts_of(log), stored)) == [("Crc", one.base_offset, broker)]


@given(logs(), st.data())
def test_another_batch_on_one_replica(log: Log, data: st.DataObject) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    at = data.draw(st.integers(0, len(log) - 1))
    stored[broker][at] = stored[broker][at]._replace(digest=b"other")
    expected = [("ReplicaMismatch", log[at].base_offset, broker)]
    assert named(judged(facts_of(log), stored)) == expected


def test_of_two_replicas_the_leaders_is_the_measure() -> None:
    stored = copies(THREE, (1, 2))
    stored[1][1] = stored[1][1]._replace(digest=b"other")
    assert named(judged(facts_of(THREE, (1, 2)), stored)) == [("ReplicaMismatch", 5, 2)]


@given(logs(min_batches=3), st.data())
def test_batches_that_only_one_replica_lacks_are_a_missing_segment(
    log: Log, data: st.DataObject
) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    first = data.draw(st.integers(0, len(log) - 2))
    last = data.draw(st.integers(first, len(log) - 2))
    del stored[broker][first : last + 1]
    found = judged(facts_of(log), stored)
    assert named(found) == [("MissingSegment", log[first].base_offset, broker)]
    assert found[0].until == log[last].last_offset + 1


@given(logs(min_batches=3), st.data())
def test_batches_that_nobody_has_are_a_gap(log: Log, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(log) - 2))
    facts = facts_of(log)
    del log[at]
    offset = facts.start_offset if at == 0 else log[at - 1].last_offset + 1
    found = judged(facts, copies(log))
    assert named(found) == [("OffsetGap", offset, one) for one in (1, 2, 3)]


@given(logs(min_batches=2), st.data())
def test_a_truncated_tail(log: Log, data: st.DataObject) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    left = data.draw(st.integers(1, len(log) - 1))
    del stored[broker][left:]
    found = judged(facts_of(log), stored)
    assert named(found) == [("TruncatedTail", log[left].base_offset, broker)]


@given(logs())
def test_a_replica_without_anything(log: Log) -> None:
    stored = copies(log)
    stored[2] = []
    assert named(judged(facts_of(log), stored)) == [("TruncatedTail", log[0].base_offset, 2)]


def test_a_replica_that_is_not_in_sync_may_lag_and_is_not_compared() -> None:
    facts, stored = facts_of(THREE), copies(THREE)
    lagging = tuple(replace(one, in_sync=one.broker != 3) for one in facts.replicas)
    stored[3] = stored[3][:3]
    assert judged(replace(facts, replicas=lagging), stored) == []


@given(logs(min_batches=2), st.data())
def test_a_batch_twice_overlaps(log: Log, data: st.DataObject) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    at = data.draw(st.integers(0, len(log) - 1))
    stored[broker].insert(at, stored[broker][at])
    assert named(judged(facts_of(log), stored)) == [("OffsetOverlap", log[at].base_offset, broker)]


@given(logs(min_batches=2), st.data())
def test_an_epoch_other_than_the_leader_says(log: Log, data: st.DataObject) -> None:
    stored, broker = copies(log), data.draw(st.sampled_from([1, 2, 3]))
    at = data.draw(st.integers(0, len(log) - 1))
    other = data.draw(st.integers(0, 99).filter(lambda one: one != log[at].leader_epoch))
    stored[broker][at] = stored[broker][at]._replace(leader_epoch=other)
    assert named(judged(facts_of(log), stored)) == [
        ("EpochRegression", log[at].base_offset, broker)
    ]


def test_without_a_history_an_epoch_still_never_goes_back() -> None:
    stored = copies(THREE)
    stored[2][3] = stored[2][3]._replace(leader_epoch=0)
    facts = replace(facts_of(THREE), epochs=EpochHistory())
    assert named(judged(facts, stored)) == [("EpochRegression", 15, 2)]


def test_retention_that_runs_during_the_read_explains_a_hole() -> None:
    """Segments go between two splits; whoever looks afterwards sees a later log start."""
    stored = copies(THREE)
    del stored[2][0:2]
    (found,) = judged(facts_of(THREE), stored)
    assert explained_by_retention(found, 10)
    assert explained_by_retention(found, 15)
    assert not explained_by_retention(found, 9)
    (tail,) = judged(facts_of(THREE), {**copies(THREE), 3: stored[3][:4]})
    assert not explained_by_retention(tail, 20)


def test_compacted_topics_have_lawful_gaps_and_different_batches() -> None:
    facts, stored = replace(facts_of(THREE), compacts=True), copies(THREE)
    del stored[1][1:3]
    stored[2][0] = stored[2][0]._replace(digest=b"fewer", record_count=2)
    assert judged(facts, stored) == []


def test_a_front_is_missing_only_if_retention_cannot_have_taken_it() -> None:
    facts, stored = facts_of(THREE), copies(THREE)
    del stored[3][:2]
    later = tuple(replace(one, start_offset=10 if one.broker == 3 else 0) for one in facts.replicas)
    facts = replace(facts, replicas=later)
    assert named(judged(facts, stored)) == [("MissingSegment", 0, 3)]
    # The last of what the leader still has there became too old meanwhile.
    age_ms = NOW_MS - THREE[1].max_timestamp_ms
    assert judged(replace(facts, retention_ms=age_ms - 1), stored) == []
    assert named(judged(replace(facts, retention_ms=age_ms), stored)) == [("MissingSegment", 0, 3)]
    # Where so many bytes are left, others may have been too many.
    assert judged(replace(facts, retention_bytes=100), stored) == []
    assert named(judged(replace(facts, retention_bytes=10_000), stored)) == [
        ("MissingSegment", 0, 3)
    ]
    assert named(judged(replace(facts, deletes=False, retention_ms=1), stored)) == [
        ("MissingSegment", 0, 3)
    ]
