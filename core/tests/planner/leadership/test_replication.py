"""No acknowledged record is lost and nobody leads twice, whatever brokers and operator do when.

The walks are the same in every run. Every rule that the planner adds to that is broken once, on
purpose, and a walk has to notice.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import LeaderEpoch, PartitionEpoch
from chiplog_core.model import reassignment as model
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed import broker_states, sessions
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState
from chiplog_core.planner.leadership import comparison, elections, proposals, regression
from chiplog_core.planner.moves import reassignment
from tests.planner.moving import Moving
from tests.planner.walks import late_join, walk

WALKS = 60
MUTANT_WALKS = 300


Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("durability", ["Fsync", "PageCache"])
@pytest.mark.parametrize("lies", [False, True])
def test_nothing_acknowledged_is_lost(durability: str, lies: bool) -> None:
    acknowledged = 0
    for seed in range(WALKS):
        found = walk(seed, durability=durability, lies=lies)
        acknowledged += sum(map(len, found.acknowledged.values()))

    assert acknowledged > WALKS, "walks in which nothing happens prove nothing"


def test_a_repeated_proposal_lets_nobody_in() -> None:
    late_join(0)


def test_nothing_acknowledged_is_lost_by_a_restored_etcd() -> None:
    for seed in range(WALKS):
        walk(seed, restores=True)


def test_nothing_acknowledged_is_lost_while_replicas_move() -> None:
    deletions = 0
    for seed in range(WALKS):
        found = walk(seed, moves=True, restores=seed % 3 == 0, lies=seed % 3 == 1)
        assert isinstance(found, Moving)
        deletions += found.deletions

    assert deletions > WALKS, "walks in which nothing moves prove nothing"


def _no_new_epoch_at_all(patch: pytest.MonkeyPatch) -> None:
    original = elections.changed

    def changed(
        state: PartitionState, isr: Any, leader: Any, *broker_states: Any, **more: Any
    ) -> PartitionState:
        epoch = LeaderEpoch(state.leader_epoch)
        return replace(original(state, isr, leader, *broker_states, **more), leader_epoch=epoch)

    patch.setattr(elections, "changed", changed)


def _restarted_member_carried_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerState, "continues", lambda _self, _ref: True)


def _first_that_vouches_wins(patch: pytest.MonkeyPatch) -> None:
    original = comparison.compare

    def compare(state: Any, topic_id: Any, broker_states: Any, reports: Any, terms: Any) -> Any:
        return original(state, topic_id, broker_states, reports, replace(terms, is_overdue=True))

    patch.setattr(regression, "compare", compare)


def _isr_below_the_floor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "is_above_floor", lambda *_: True)


def _dead_leave_below_the_floor(patch: pytest.MonkeyPatch) -> None:
    original = elections.in_sync

    def in_sync(state: Any, topic_id: Any, _min_isr: int, known: BrokerStates) -> Any:
        return original(state, topic_id, 1, known)

    patch.setattr(elections, "in_sync", in_sync)


def _elected_from_outside(patch: pytest.MonkeyPatch) -> None:
    original = elections.in_sync

    def in_sync(state: PartitionState, topic_id: Any, min_isr: int, known: BrokerStates) -> Any:
        isr = original(state, topic_id, min_isr, known)
        if any(known.process_state(ref) is ProcessState.ALIVE for ref in isr):
            return isr
        refs = (known.by_id[one].ref for one in state.replicas)
        return tuple(ref for ref in refs if ref is not None)

    patch.setattr(elections, "in_sync", in_sync)


def _stale_proposal_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "is_due", lambda claim, state: not proposals.is_beyond(claim, state))


def _stale_leader_heard(patch: pytest.MonkeyPatch) -> None:
    original = proposals.is_acceptable

    def is_acceptable(claim: Any, state: PartitionState, *more: Any) -> bool:
        if state.leader is None or claim.broker_id != state.leader.broker_id:
            return False
        proposal = replace(
            claim.proposal, session=state.leader.session, leader_epoch=state.leader_epoch
        )
        return original(replace(claim, proposal=proposal), state, *more)

    patch.setattr(proposals, "is_due", lambda claim, state: not proposals.is_beyond(claim, state))
    patch.setattr(proposals, "is_acceptable", is_acceptable)


def _stale_session_joins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "may_join", lambda *_: True)
    patch.setattr(BrokerState, "continues", lambda _self, _ref: True)


def _refusal_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    original = proposals.judge

    def judge(state: PartitionState, *more: Any) -> PartitionState:
        after = original(state, *more)
        return state if after.isr == state.isr else after

    patch.setattr(proposals, "judge", judge)


def _accepted_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    original = proposals.judge

    def judge(state: PartitionState, *more: Any) -> PartitionState:
        return replace(original(state, *more), partition_epoch=state.partition_epoch)

    patch.setattr(proposals, "judge", judge)


def _reports_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(regression, "is_above", lambda *_: False)
    patch.setattr(regression, "is_beyond", lambda *_: False)


def _sessions_used_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sessions, "_unused_session", lambda _world, broker: type(broker.spec.session)(1))


def _not_waited_for_the_brokers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_states, "unchecked_brokers", lambda _world: iter(()))


def _data_removed_with_the_switch(patch: pytest.MonkeyPatch) -> None:
    def leftovers_on(gone: Any) -> Any:
        epoch = PartitionEpoch(0)
        return tuple(replace(one, removable_since=epoch) for one in model.leftovers_on(gone))

    patch.setattr(reassignment, "leftovers_on", leftovers_on)


def _switched_before_all_caught_up(patch: pytest.MonkeyPatch) -> None:
    original = reassignment._switched

    def switched(state: PartitionState, *more: Any) -> PartitionState:
        in_sync = {ref.broker_id for ref in state.isr}
        if len(in_sync & set(state.target)) < 2:
            return state
        caught_up = tuple(one for one in state.target if one in in_sync)
        return original(replace(state, replicas=(*caught_up, *state.removing)), *more)

    patch.setattr(reassignment, "_switched", switched)


def _proof_of_an_earlier_leadership(patch: pytest.MonkeyPatch) -> None:
    original = reassignment._released

    def released(state: PartitionState, settled: Any, *more: Any) -> PartitionState:
        if state.leader is None or state.leader.broker_id not in settled:
            return state
        stale = settled[state.leader.broker_id]
        fresh = replace(stale, session=state.leader.session, leader_epoch=state.leader_epoch)
        return original(state, {state.leader.broker_id: fresh}, *more)

    patch.setattr(reassignment, "_released", released)


def _no_new_epoch_at_the_switch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reassignment, "next_epoch", lambda state, _brokers: state.leader_epoch)


MUTANTS: list[tuple[Patch, str]] = [
    (_data_removed_with_the_switch, "moves"),
    (_switched_before_all_caught_up, "moves"),
    (_proof_of_an_earlier_leadership, "moves"),
    (_no_new_epoch_at_the_switch, "moves"),
    (_no_new_epoch_at_all, ""),
    (_restarted_member_carried_over, "lies"),
    (_first_that_vouches_wins, "lies"),
    (_isr_below_the_floor, ""),
    (_dead_leave_below_the_floor, ""),
    (_elected_from_outside, ""),
    (_stale_proposal_accepted, "late"),
    (_stale_leader_heard, "late"),
    (_stale_session_joins, ""),
    (_refusal_without_an_answer, ""),
    (_accepted_without_an_answer, ""),
    (_sessions_used_again, ""),
    (_reports_ignored, "restores"),
    (_not_waited_for_the_brokers, "restores"),
]


RARE: dict[Patch, int] = {
    _first_that_vouches_wins: 245,
    _not_waited_for_the_brokers: 170,
    _proof_of_an_earlier_leadership: 400,
}
"""Where to begin with bugs that few walks show."""


@pytest.mark.parametrize(
    ("mutant", "kind"), [pytest.param(one, kind, id=one.__name__[1:]) for one, kind in MUTANTS]
)
def test_a_planted_bug_is_caught(mutant: Patch, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    first = RARE.get(mutant, 0)
    assert any(_is_caught(seed, kind) for seed in range(first, first + MUTANT_WALKS))


def _is_caught(seed: int, kind: str) -> bool:
    try:
        if kind == "late":
            late_join(seed)
        else:
            walk(seed, restores=kind == "restores", lies=kind == "lies", moves=kind == "moves")
    except AssertionError:
        return True
    return False
