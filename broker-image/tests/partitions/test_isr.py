"""Who is proposed for the in-sync replicas, and what the high watermark waits for."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from chiplog_broker.partitions.isr import (
    NOTHING,
    BindingProposal,
    InSync,
    Progress,
    counted_followers,
    is_answered,
    may_join,
    wanted_isr,
)
from chiplog_core.ids import BrokerId, PartitionEpoch, ReplicaRef, Session

NOW_S = 1000.0
LAG_MAX_S = 10.0


def ref(broker_id: int, session: int = 1) -> ReplicaRef:
    return ReplicaRef(BrokerId(broker_id), Session(session))


L, A, B = ref(1), ref(2), ref(3)
FRESH = NOW_S - 1


def known(**changes: object) -> InSync:
    """Three replicas in sync, all with the ten records that there are."""
    usual = InSync(
        own=L,
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
        isr=(L, A, B),
        live=frozenset({L, A, B}),
        min_isr=2,
        high_watermark=10,
        epoch_start_offset=5,
        progress={A: Progress(10, FRESH), B: Progress(10, FRESH)},
        now_s=NOW_S,
        lag_max_s=LAG_MAX_S,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def test_nothing_is_proposed_while_all_is_well() -> None:
    assert wanted_isr(known()) is None


def test_who_has_not_caught_up_for_ten_seconds_is_proposed_out() -> None:
    at = {A: Progress(10, FRESH), B: Progress(10, NOW_S - LAG_MAX_S)}
    assert wanted_isr(known(progress=at)) is None
    at[B] = Progress(10, NOW_S - LAG_MAX_S - 0.001)
    assert wanted_isr(known(progress=at)) == (L, A)


def test_never_below_min_isr_and_the_dead_go_before_the_slow() -> None:
    late = {A: Progress(3, NOW_S - 90), B: Progress(8, NOW_S - 80)}
    assert wanted_isr(known(progress=late)) == (L, B)
    assert wanted_isr(known(progress=late, min_isr=3)) is None
    assert wanted_isr(known(progress=late, min_isr=1)) == (L,)
    # B is less far behind, but it is dead: A can come back by itself.
    assert wanted_isr(known(progress=late, live=frozenset({L, A}))) == (L, A)
    # Fewer than min ISR already: no floor makes a set larger, but none gets smaller either.
    assert wanted_isr(known(isr=(L, A), progress=late, min_isr=3)) is None


def test_of_the_slow_the_longest_behind_goes_first() -> None:
    late = {A: Progress(8, NOW_S - 80), B: Progress(3, NOW_S - 90)}
    assert wanted_isr(known(progress=late)) == (L, A)


def test_who_joins_makes_room_for_one_that_lags_to_go() -> None:
    at = {A: Progress(3, NOW_S - 90), B: Progress(10, FRESH)}
    assert wanted_isr(known(isr=(L, A), progress=at)) == (L, B)
    assert wanted_isr(known(isr=(L, A), progress=at, min_isr=3)) == (L, B)


def test_replicas_stand_in_the_order_of_the_assignment() -> None:
    order = (BrokerId(3), BrokerId(1), BrokerId(2))
    assert wanted_isr(known(isr=(L, A), replicas=order)) == (B, L, A)


@pytest.mark.parametrize(
    ("end_offset", "high_watermark", "epoch_start", "joins"),
    [
        (10, 10, 5, True),
        (9, 10, 5, False),
        # At the start of a leadership the high watermark may be below what was acknowledged before.
        (10, 4, 11, False),
        (11, 4, 11, True),
        (NOTHING, 0, 0, False),
    ],
)
def test_who_may_join(end_offset: int, high_watermark: int, epoch_start: int, joins: bool) -> None:
    one = known(
        isr=(L, A),
        high_watermark=high_watermark,
        epoch_start_offset=epoch_start,
        progress={A: Progress(10, FRESH), B: Progress(end_offset, FRESH)},
    )
    assert may_join(B, one) is joins
    assert wanted_isr(one) == ((L, A, B) if joins else None)


def test_a_replica_joins_only_if_it_is_assigned_alive_and_has_fetched() -> None:
    assert wanted_isr(known(isr=(L, A), progress={A: Progress(10, FRESH)})) is None
    assert wanted_isr(known(isr=(L, A), live=frozenset({L, A}))) is None
    assert not may_join(B, known(isr=(L, A), live=frozenset({L, A})))
    assert wanted_isr(known(isr=(L, A), replicas=(BrokerId(1), BrokerId(2)))) is None


def test_a_process_takes_the_place_of_the_one_before_it_only_when_it_has_caught_up() -> None:
    again = ref(3, 2)
    at = {A: Progress(10, FRESH), B: Progress(10, NOW_S - 90), again: Progress(9, FRESH)}
    live = frozenset({L, A, again})
    # What its process before had says nothing of what this one has (R1).
    assert wanted_isr(known(progress=at, live=live, min_isr=3)) is None
    at[again] = Progress(10, FRESH)
    assert wanted_isr(known(progress=at, live=live, min_isr=3)) == (L, A, again)


def test_the_high_watermark_waits_for_listed_and_proposed_until_the_map_answers() -> None:
    out = BindingProposal(base_partition_epoch=4, isr=(L, A))
    assert counted_followers(L, (L, A, B), None) == (A, B)
    assert counted_followers(L, (L, A, B), out) == (A, B)
    assert counted_followers(L, (L, A), BindingProposal(base_partition_epoch=4, isr=(L, A, B))) == (
        A,
        B,
    )
    assert [is_answered(out, PartitionEpoch(epoch)) for epoch in (3, 4, 5)] == [False, False, True]


def situations(count: int) -> Iterator[InSync]:
    for seed in range(count):
        random = Random(seed)  # noqa: S311
        everybody = [ref(broker_id, session) for broker_id in range(2, 6) for session in (1, 2)]
        listed = {one.broker_id: one for one in random.sample(everybody, random.randint(0, 5))}
        live = {one.broker_id: one for one in random.sample(everybody, random.randint(0, 5))}
        yield InSync(
            own=L,
            replicas=(BrokerId(1), *(BrokerId(one) for one in range(2, random.randint(3, 7)))),
            isr=(L, *listed.values()),
            live=frozenset({L, *live.values()}),
            min_isr=random.randint(1, 4),
            high_watermark=random.randint(0, 4),
            epoch_start_offset=random.randint(0, 4),
            progress={
                one: Progress(random.randint(-1, 6), NOW_S - random.randint(0, 20))
                for one in everybody
                if random.random() < 0.7
            },
            now_s=NOW_S,
            lag_max_s=LAG_MAX_S,
        )


def test_no_situation_breaks_a_rule() -> None:
    changes = 0
    for one in situations(5000):
        isr = wanted_isr(one)
        if isr is None:
            continue
        changes += 1
        assert set(isr) != set(one.isr)
        assert L in isr
        ids = [member.broker_id for member in isr]
        assert len(set(ids)) == len(ids)
        assert len(isr) >= min(one.min_isr, len(one.isr)), "below the floor (R4)"
        for joined in set(isr) - set(one.isr):
            assert joined in one.live, "R1"
            end_offset = one.progress[joined].end_offset
            assert end_offset >= one.high_watermark
            assert end_offset >= one.epoch_start_offset
        left = set(one.isr) - set(isr)
        joined_ids = {member.broker_id for member in set(isr) - set(one.isr)}
        for gone in left:
            caught_up = one.progress.get(gone, Progress(NOTHING, float("-inf"))).caught_up_s
            assert gone.broker_id in joined_ids or NOW_S - caught_up > LAG_MAX_S
    assert changes > 1000
