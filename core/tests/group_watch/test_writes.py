"""How seldom a status is written, and that the last figure always is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.group_watch import pace
from chiplog_core.group_watch.due import BURST, LEAST_COST_MS, WRITES_PER_S, cost_ms
from chiplog_core.model.group_status import GroupState
from tests.group_watch.cluster import Cluster, group_object

STEP = st.tuples(
    st.integers(0, 3_000),  # milliseconds until the next one
    st.integers(0, 400),  # records that are produced
    st.integers(0, 400),  # records that are consumed, at most
    st.booleans(),  # whether members come or go
)


def cluster() -> Cluster:
    made = Cluster()
    made.add(group_object())
    made.commit("billing", 0, 0)
    return made


@settings(deadline=None, max_examples=20)
@given(st.lists(STEP, max_size=12))
def test_writes_are_bounded_and_the_last_figure_is_exact(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    it = cluster()
    began_ms = it.now_ms
    offset = end = 0
    for wait_ms, produced, consumed, is_joined in steps:
        end += produced
        offset = min(end, offset + consumed)
        it.commit("billing", offset, end)
        it.groups["billing"].members = int(is_joined)
        it.live(wait_ms / 1000)
    assert len(it.writes) <= 2 * BURST + (it.now_ms - began_ms) / LEAST_COST_MS

    it.live((2 * BURST + 2) * LEAST_COST_MS / 1000, every_ms=1_000)

    status = it.status()
    assert (status.total_lag, status.max_lag) == (end - offset, end - offset)
    assert status.partitions[0].committed_offset == offset
    assert status.partitions[0].end_offset == end
    assert status.member_count == it.groups["billing"].members
    settled = len(it.writes)
    it.live(600, every_ms=30_000)
    assert len(it.writes) == settled, "nothing moves, nothing is written"


@pytest.mark.parametrize("after_ms", range(0, 600, 100))
@pytest.mark.parametrize("load_ms", [50, 400, 12_000])
def test_a_lag_is_exact_within_a_second_of_the_loads_end(after_ms: int, load_ms: int) -> None:
    it = cluster()
    it.live(20)
    began_ms = it.now_ms + after_ms
    requeue_after_ms, ended_ms = it.now_ms, began_ms + load_ms
    while True:
        it.now_ms += 10
        loaded_ms = min(max(0, it.now_ms - began_ms), load_ms)
        it.commit("billing", 0, 1_000 * loaded_ms // load_ms)
        if it.now_ms >= requeue_after_ms:
            requeue_after_ms = it.now_ms + it.look().requeue_after_ms
        if it.status().total_lag == 1_000 and it.now_ms >= ended_ms:
            break
        assert it.now_ms < ended_ms + 1_000
    assert it.now_ms - ended_ms <= 800, "that leaves a fifth for the questions and the write"


def test_loads_that_follow_each_other_are_each_told_in_time() -> None:
    it = cluster()
    end = 0
    for _ in range(30):
        it.commit("billing", end, end)
        it.live(1.2)
        assert it.status().total_lag == 0
        end += 1_000
        it.commit("billing", end - 1_000, end - 300)
        it.live(0.3)
        it.commit("billing", end - 1_000, end)
        it.live(0.8)
        assert it.status().total_lag == 1_000


def test_a_load_that_goes_on_writes_little() -> None:
    it = cluster()
    it.live(10)
    before = len(it.writes)
    for number in range(300):
        it.commit("billing", 1000 * number, 1000 * number + 600 + number % 7)
        it.live(0.1)

    assert len(it.writes) - before <= 3, "the lag stays in its band"


def test_the_state_is_told_at_once() -> None:
    it = cluster()
    it.live(10)
    it.groups["billing"].state = GroupState.PREPARING_REBALANCE
    it.look()
    assert it.status().state is GroupState.PREPARING_REBALANCE


def test_a_thousand_groups_share_what_the_api_server_takes() -> None:
    assert cost_ms(1) == cost_ms(10) == LEAST_COST_MS
    assert 1_000 * 1_000 / cost_ms(1_000) == WRITES_PER_S


def test_looks_follow_each_other_faster_while_something_moves() -> None:
    assert pace.requeue_after_ms(asked=False, still_ms=0, took_ms=0) == pace.NOTHING_TO_ASK_MS
    assert pace.requeue_after_ms(asked=True, still_ms=0, took_ms=5) == pace.MOVING_MS
    assert pace.requeue_after_ms(asked=True, still_ms=60_000, took_ms=5) == pace.AT_REST_MS
    assert pace.requeue_after_ms(asked=True, still_ms=60_000, took_ms=20) == 800
    assert pace.requeue_after_ms(asked=True, still_ms=60_000, took_ms=100) == 1_000
    assert pace.requeue_after_ms(asked=True, still_ms=0, took_ms=400) == 2_000
    assert pace.requeue_after_ms(asked=True, still_ms=0, took_ms=90_000) == pace.MAX_MS
