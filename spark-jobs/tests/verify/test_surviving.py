"""Replicas, each compacted for itself: healthy ones give nothing, each defect its name."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.surviving import KeyHistory, Surviving, Suspicion

from .logs import REPLICAS, batch, facts_of, named

FACTS = replace(facts_of([batch(0, 1)]), compacts=True)


@dataclass(frozen=True)
class Written:
    """A record as it was appended."""

    key: bytes
    value: bytes | None
    is_transactional: bool = False

    def on(self, replica: int, offset: int) -> Surviving:
        digest = self.key + b"=" + (self.value or b"-")
        return Surviving(
            self.key, offset, replica, digest, self.value is None, self.is_transactional
        )


def compact(log: dict[int, Written], below: int, *, drops_tombstones: bool) -> dict[int, Written]:
    """What a pass leaves that was told of everything below an offset."""
    last = {one.key: offset for offset, one in sorted(log.items()) if offset < below}
    return {
        offset: one
        for offset, one in log.items()
        if offset >= below
        or (last[one.key] == offset and not (drops_tombstones and one.value is None))
    }


@st.composite
def written(draw: st.DrawFn) -> dict[int, Written]:
    values = st.one_of(st.none(), st.binary(max_size=2))
    records = st.builds(Written, st.sampled_from([b"a", b"b", b"c"]), values)
    return dict(enumerate(draw(st.lists(records, min_size=1, max_size=15))))


def judged(
    stored: dict[int, dict[int, Written]], clean: dict[int, int] | None = None
) -> list[tuple[Suspicion | None, Finding]]:
    """What comes of it, key by key, as Spark sorts records."""
    rows = sorted(
        one.on(broker, offset) for broker, log in stored.items() for offset, one in log.items()
    )
    found: list[tuple[Suspicion | None, Finding]] = []
    for key in sorted({row.key for row in rows}):
        history = KeyHistory(FACTS, frozenset(stored), clean or {})
        for row in rows:
            if row.key == key:
                found += [(None, finding) for finding in history.check_next(row)]
        found += history.finish()
    return found


def names(found: list[tuple[Suspicion | None, Finding]]) -> list[tuple[str, int, int]]:
    return named([finding for _, finding in found])


@given(written(), st.data())
def test_replicas_that_compact_by_themselves(log: dict[int, Written], data: st.DataObject) -> None:
    stored, clean = {}, {}
    for broker in REPLICAS:
        clean[broker] = data.draw(st.integers(0, len(log)))
        stored[broker] = compact(log, clean[broker], drops_tombstones=False)
        if data.draw(st.booleans()):
            # Tombstones go in a later pass than the values they stand for.
            stored[broker] = compact(stored[broker], clean[broker], drops_tombstones=True)
    assert judged(stored, clean) == []


@given(written(), st.integers(0, 20))
def test_a_follower_that_fetched_while_its_leader_compacted(
    log: dict[int, Written], until: int
) -> None:
    """It has older values beside gaps that only compaction makes, and is in good order."""
    compacted = compact(log, len(log), drops_tombstones=False)
    mixed = {offset: one for offset, one in log.items() if offset < until or offset in compacted}
    assert judged({1: compacted, 2: mixed, 3: log}, {1: len(log)}) == []


@given(written(), st.data())
def test_an_older_value_below_the_clean_point(log: dict[int, Written], data: st.DataObject) -> None:
    clean = compact(log, len(log), drops_tombstones=False)
    older = sorted(set(log) - set(clean))
    if not older:
        return
    offset, broker = data.draw(st.sampled_from(older)), data.draw(st.sampled_from(REPLICAS))
    stored = {one: dict(clean) for one in REPLICAS}
    stored[broker][offset] = log[offset]
    points = dict.fromkeys(REPLICAS, len(log))
    assert names(judged(stored, points)) == [("CompactionOrder", offset, broker)]
    assert judged(stored) == []  # where brokers do not tell their clean points


@given(written(), st.data())
def test_the_latest_value_is_missing(log: dict[int, Written], data: st.DataObject) -> None:
    clean = compact(log, len(log), drops_tombstones=False)
    offset, broker = data.draw(st.sampled_from(sorted(clean))), data.draw(st.sampled_from(REPLICAS))
    stored = {one: dict(clean) for one in REPLICAS}
    del stored[broker][offset]
    expected = [] if log[offset].value is None else [("ReplicaMismatch", offset, broker)]
    assert names(judged(stored)) == expected


def test_a_tombstone_may_be_gone_but_not_before_what_it_deletes() -> None:
    value, tombstone = Written(b"a", b"1"), Written(b"a", None)
    stored = {1: {3: tombstone}, 2: {}, 3: {0: value}}
    assert names(judged(stored)) == [("ReplicaMismatch", 3, 3)]


@given(written(), st.data())
def test_another_value_at_an_offset(log: dict[int, Written], data: st.DataObject) -> None:
    offset, broker = data.draw(st.sampled_from(sorted(log))), data.draw(st.sampled_from(REPLICAS))
    stored = {one: dict(log) for one in REPLICAS}
    stored[broker][offset] = Written(log[offset].key, b"another")
    assert ("ReplicaMismatch", offset, broker) in names(judged(stored))
    assert {finding.replica for _, finding in judged(stored)} == {broker}


def test_a_record_of_another_key_is_reported_for_the_replica_that_has_it() -> None:
    log = {0: Written(b"a", b"1"), 1: Written(b"b", b"2")}
    stored = {one: dict(log) for one in REPLICAS}
    stored[2][1] = Written(b"c", b"2")
    assert names(judged(stored)) == [("ReplicaMismatch", 1, 2), ("ReplicaMismatch", 1, 2)]


def test_what_a_newer_value_above_the_end_took_away_is_suspected_once_only() -> None:
    """Replica 2 compacted during the read, knowing offset 9 that lies above the end."""
    value = Written(b"a", b"1")
    first = judged({1: {3: value}, 2: {}, 3: {3: value}})
    suspected = {suspicion for suspicion, _ in first}
    assert suspected == {Suspicion(b"a", 3, 2)}
    newer = Written(b"a", b"2")
    again = judged({1: {3: value, 9: newer}, 2: {9: newer}, 3: {9: newer}})
    assert {suspicion for suspicion, _ in again} & suspected == set()
    # A loss is found again.
    again = judged({1: {3: value}, 2: {}, 3: {3: value}})
    assert {suspicion for suspicion, _ in again} & suspected == suspected


def test_an_aborted_record_that_only_one_replica_has_removed() -> None:
    """Its batch does not show that it was aborted."""
    kept = {0: Written(b"a", b"committed")}
    whole = {**kept, 1: Written(b"a", b"aborted", is_transactional=True)}
    assert judged({1: kept, 2: whole, 3: whole}, {1: 2}) == []
    assert judged({1: {}, 2: {1: whole[1]}, 3: {1: whole[1]}}, {1: 2}) == []


def test_a_newer_record_without_a_transaction_is_on_every_replica() -> None:
    whole = {
        1: Written(b"a", b"aborted", is_transactional=True),
        2: Written(b"a", b"new"),
    }
    lacking = {1: whole[1]}
    assert names(judged({1: whole, 2: whole, 3: lacking})) == [("ReplicaMismatch", 2, 3)]
