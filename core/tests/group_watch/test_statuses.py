"""What the status of a ConsumerGroup says of its group."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.statuses import (
    MOST_NAMES,
    ObservedState,
    Others,
    group_status,
    is_retention_due,
    retention_ms,
    status_without_figures,
)
from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.model.conditions import ConditionType
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_exchange import KEPT_FOR_EVER, GroupFacts
from chiplog_core.model.group_status import (
    ConsumerGroupStatus,
    GroupState,
    PartitionLag,
    ResetState,
    ResetStatus,
)
from chiplog_core.model.verdicts import fails, holds
from chiplog_core.naming import labels
from chiplog_core.problems import Problem
from tests.group_watch.cluster import NOW, group_object

PAUSED = {"annotations": {labels.PAUSE: "true"}}
FACTS = GroupFacts(
    group_id="billing", state=GroupState.STABLE, coordinator=BrokerId(2), member_count=2
)
LAGS = Lags(
    partitions=(
        PartitionLag(
            topic="orders",
            partition=PartitionIndex(0),
            committed_offset=10,
            end_offset=Offset(15),
            lag=5,
            lag_seconds=1,
        ),
    )
)
ANSWERED = ObservedState(facts=FACTS, lags=LAGS)
BEFORE = ConsumerGroupStatus(
    state=GroupState.STABLE, coordinator=BrokerId(2), member_count=7, total_lag=70
)
RESET = {"id": "one", "strategy": "to-latest"}


def conditions(
    group: ConsumerGroup, observed: ObservedState = ANSWERED, **more: Any
) -> dict[str, tuple[str, str, str]]:
    """Type -> status, reason and message."""
    status = group_status(group, observed, more.pop("problems", ()), NOW, Others(**more))
    return {one.type: (one.status.value, one.reason, one.message) for one in status.conditions}


def with_status(group: ConsumerGroup, status: ConsumerGroupStatus) -> ConsumerGroup:
    return replace(group, status=status)


def test_an_answer_makes_the_group_ready_and_gives_its_figures() -> None:
    status = group_status(group_object(), ANSWERED, (), NOW)

    assert (status.group_id, status.observed_generation) == ("billing", 1)
    assert (status.state, status.coordinator) == (GroupState.STABLE, 2)
    assert (status.total_lag, status.max_lag, status.partitions) == (5, 5, LAGS.partitions)
    assert conditions(group_object()) == {"Ready": ("True", "Ready", "")}


def test_until_the_coordinator_has_answered_the_old_figures_stay() -> None:
    group = with_status(group_object(), BEFORE)
    status = group_status(group, ObservedState(), (), NOW)

    assert (status.state, status.member_count, status.total_lag) == (GroupState.STABLE, 7, 70)
    assert conditions(group, ObservedState()) == {
        "Ready": ("False", "Pending", "waiting for the answer of the group's coordinator")
    }


def test_without_lags_there_are_no_new_figures() -> None:
    group = with_status(group_object(), BEFORE)

    assert group_status(group, ObservedState(facts=FACTS), (), NOW).member_count == 7


def test_figures_of_a_silent_coordinator_are_old_and_its_state_is_unknown() -> None:
    group = with_status(group_object(maxLag={"records": 100}), BEFORE)
    silent = replace(ANSWERED, silent="broker 2 does not answer")
    status = group_status(group, silent, (), NOW)

    assert (status.state, status.coordinator) == (GroupState.UNKNOWN, None)
    assert (status.member_count, status.total_lag) == (7, 70)
    published = conditions(group, silent)
    assert published["Ready"] == (
        "False",
        "CoordinatorNotAvailable",
        "broker 2 does not answer; members and figures are from the last answer",
    )
    assert published["LagWithinObjective"][:2] == ("Unknown", "LagUnknown")


def test_a_problem_of_the_spec_goes_before_all_else() -> None:
    problem = Problem("spec.maxLag", "is empty", "set records or seconds")

    published = conditions(group_object(), ObservedState(silent="x"), problems=(problem,))

    assert published["Ready"] == ("False", "InvalidConfig", str(problem))


@pytest.mark.parametrize(
    ("spec", "milliseconds"),
    [
        ({}, None),
        ({"offsetRetention": "Never"}, KEPT_FOR_EVER),
        ({"offsetRetention": "7d"}, 7 * 86_400_000),
    ],
)
def test_a_group_is_ready_when_its_coordinator_has_the_retention_of_the_spec(
    spec: dict[str, Any], milliseconds: int | None
) -> None:
    group = group_object(**spec)
    other, same = (
        replace(FACTS, offset_retention_ms=5),
        replace(FACTS, offset_retention_ms=milliseconds),
    )

    assert retention_ms(group) == milliseconds
    assert is_retention_due(group, other)
    assert not is_retention_due(group, same)
    assert conditions(group, replace(ANSWERED, facts=other))["Ready"] == (
        "False",
        "OffsetRetentionPending",
        "the group's coordinator has not stored spec.offsetRetention yet; it is asked again",
    )
    assert conditions(group, replace(ANSWERED, facts=same))["Ready"][0] == "True"


def test_who_is_paused_or_dead_or_may_not_change_the_group_gets_no_other_retention() -> None:
    wished: dict[str, Any] = {"offsetRetention": "7d"}
    dead = replace(FACTS, state=GroupState.DEAD)

    assert not is_retention_due(group_object(meta=PAUSED, **wished), FACTS)
    assert not is_retention_due(group_object(**wished), dead)
    reading = replace(ANSWERED, may_change=False)
    assert conditions(group_object(**wished), reading)["Ready"][0] == "True"


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        (ResetState.REFUSED, ("False", "ResetRefused", "reset one: why")),
        (ResetState.FAILED, ("False", "ResetFailed", "reset one: why")),
        (ResetState.DONE, ("True", "Ready", "")),
        (ResetState.RUNNING, ("True", "Ready", "")),
    ],
)
def test_a_reset_that_did_not_happen_keeps_the_group_from_being_ready(
    state: ResetState, ready: tuple[str, str, str]
) -> None:
    reset = ResetStatus(id="one", state=state, message="why")

    assert conditions(group_object(reset=RESET), reset=reset)["Ready"] == ready


def test_the_reset_that_is_published_counts_until_there_is_another() -> None:
    refused = ResetStatus(id="one", state=ResetState.REFUSED, message="why")
    group = with_status(group_object(reset=RESET), replace(BEFORE, reset=refused))

    assert conditions(group)["Ready"][1] == "ResetRefused"
    assert group_status(group, ANSWERED, (), NOW).reset == refused
    done = replace(refused, state=ResetState.DONE)
    assert conditions(group, reset=done)["Ready"][1] == "Ready"


def test_the_result_of_another_reset_is_of_no_concern() -> None:
    old = ResetStatus(id="zero", state=ResetState.REFUSED, message="why")

    assert conditions(group_object(reset=RESET), reset=old)["Ready"][1] == "Ready"
    assert conditions(group_object(), reset=old)["Ready"][1] == "Ready"


def test_what_scaling_says_is_a_condition_of_its_own() -> None:
    scaled = holds(ConditionType.SCALED, "Scaled")

    assert conditions(group_object(), scaled=scaled)["Scaled"] == ("True", "Scaled", "")
    assert "Scaled" not in conditions(group_object())


def test_leaders_that_do_not_answer_are_named_up_to_a_number() -> None:
    names = tuple(f"orders-{number}" for number in range(MOST_NAMES + 2))
    group = group_object(maxLag={"records": 100})

    published = conditions(group, replace(ANSWERED, old_partitions=names))
    few = conditions(group, replace(ANSWERED, old_partitions=names[:2]))

    assert published["Warning"][:2] == ("True", "LeaderNotAvailable")
    assert "orders-9 and 2 more do not answer" in published["Warning"][2]
    assert "the leaders of orders-0, orders-1 do not answer" in few["Warning"][2]
    assert published["LagWithinObjective"][1] == "LagUnknown"
    assert conditions(group)["LagWithinObjective"][1] == "WithinObjective"


def test_a_group_too_large_for_one_answer_says_so() -> None:
    part = replace(ANSWERED, facts=replace(FACTS, is_whole=False))

    assert conditions(group_object(), part)["Warning"] == (
        "True",
        "NotWhole",
        (
            "the group is too large for one answer of its coordinator: some of its members and "
            "partitions are missing in this status"
        ),
    )
    assert "Warning" not in conditions(group_object())


def test_a_paused_object_says_so() -> None:
    assert conditions(group_object(meta=PAUSED))["ReconciliationPaused"][0] == "True"


@pytest.mark.parametrize("meta", [{}, PAUSED])
def test_without_a_right_to_the_group_there_are_no_figures(meta: dict[str, Any]) -> None:
    verdict = fails(ConditionType.READY, "NotAllowed", "why")
    group = with_status(group_object(meta=meta), BEFORE)
    status = status_without_figures(group, verdict, NOW)

    assert (status.group_id, status.member_count, status.total_lag) == ("billing", None, None)
    assert [one.type for one in status.conditions] == (
        ["Ready", "ReconciliationPaused"] if meta else ["Ready"]
    )
