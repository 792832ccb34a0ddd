"""When brokers are restarted: windows, approval, racks, and what a restart waits for."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Create, RestartPod
from chiplog_core.model.broker_cluster import Roll, RollState
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.world import StatefulSetState
from chiplog_core.planner.brokers.unable_to_start import PATIENCE, unable_to_start
from chiplog_core.planner.rolls.restart_limits import find_limits, shrinks_any_isr
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW, topic

SATURDAYS = {"windows": [{"schedule": "0 2 * * 6", "duration": "3h"}]}
"""2026-01-01 is a Thursday."""
OPENS_AT = datetime(2026, 1, 3, 2, tzinfo=UTC)


def running(replicas: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(replicas, **spec)
    kubernetes.run()
    config = {"min.insync.replicas": 2}
    kubernetes.apply(topic(partitions=replicas, replicas=3, config=config))
    kubernetes.settle()
    return kubernetes


def condition(kubernetes: Kubernetes, type_: str) -> Condition:
    return next(one for one in kubernetes.cluster.status.conditions if one.type == type_)


def restarts(kubernetes: Kubernetes) -> list[BrokerId]:
    return [one.broker_id for one in restart_actions(kubernetes)]


def restart_actions(kubernetes: Kubernetes) -> list[RestartPod]:
    return [one for one in kubernetes.plan().actions if isinstance(one, RestartPod)]


def roll_of(kubernetes: Kubernetes) -> Roll | None:
    return kubernetes.cluster.status.roll


def stop(kubernetes: Kubernetes, broker_id: int) -> None:
    """The pod is deleted, and its process ends."""
    pod = kubernetes.pods[BrokerId(broker_id)]
    kubernetes.pods[BrokerId(broker_id)] = replace(pod, deleting=True, ready=False)
    kubernetes.kill(broker_id)
    kubernetes.settle()


def come_back(kubernetes: Kubernetes, broker_id: int) -> None:
    """The broker starts, and is in sync again."""
    kubernetes.start(broker_id)
    kubernetes.settle()
    kubernetes.maps = {
        name: replace(
            one,
            spec=replace(
                one.spec,
                generations=tuple(
                    replace(
                        generation,
                        partitions=tuple(
                            replace(
                                state,
                                isr=tuple(
                                    ref
                                    for replica in state.replicas
                                    if (ref := ref_of(kubernetes, replica)) is not None
                                    and (replica == broker_id or ref in state.isr)
                                ),
                            )
                            for state in generation.partitions
                        ),
                    )
                    for generation in one.spec.generations
                ),
            ),
        )
        for name, one in kubernetes.maps.items()
    }
    kubernetes.settle()


def ref_of(kubernetes: Kubernetes, broker_id: BrokerId) -> Any:
    states = find_broker_states(kubernetes.world(), frozenset())
    return states.by_id[broker_id].ref


# -- what is announced, and why


def test_a_roll_is_announced_with_its_cause_before_the_first_restart() -> None:
    kubernetes = running()
    kubernetes.configure(3, config={"fetch.max.bytes": 4096})
    kubernetes.revisions = dict.fromkeys(kubernetes.pods, "new")
    seen: dict[str, Any] = {"restart_reasons": ("spec.config[fetch.max.bytes]",)}

    first = kubernetes.plan(**seen).actions
    assert not [one for one in first if isinstance(one, RestartPod)]
    kubernetes.execute(first)

    roll = roll_of(kubernetes)
    assert roll is not None
    assert (roll.state, roll.brokers) == (RollState.ONGOING, (1, 2, 3))
    assert roll.cause == "spec.config[fetch.max.bytes]"
    assert condition(kubernetes, "ConfigurationApplied").message == (
        "brokers 1, 2, 3 must restart for spec.config[fetch.max.bytes]"
    )
    (restart,) = restart_actions(kubernetes)  # another operator, which did not see the change
    assert restart.message == "The operator restarts broker 1 for spec.config[fetch.max.bytes]"


def test_a_restart_for_a_new_version_of_the_operator_says_so() -> None:
    kubernetes = running()
    kubernetes.revisions = dict.fromkeys(kubernetes.pods, "of another version")
    kubernetes.settle()

    applied = condition(kubernetes, "ConfigurationApplied")
    assert applied.message == (
        "brokers 1, 2, 3 must restart for another version or other settings of the operator (the "
        "spec has not changed)"
    )
    assert kubernetes.cluster.status.revision == "of another version"
    assert restarts(kubernetes) == [1]


def test_a_change_while_no_operator_ran_is_not_the_operators() -> None:
    kubernetes = running()
    kubernetes.configure(3, config={"fetch.max.bytes": 4096})
    kubernetes.revisions = dict.fromkeys(kubernetes.pods, "new")
    kubernetes.settle()

    roll = roll_of(kubernetes)
    assert roll is not None
    assert roll.cause == "a changed configuration"


def test_a_complete_roll_leaves_the_status() -> None:
    kubernetes = running(1)
    kubernetes.roll_out(1)
    kubernetes.settle()
    assert roll_of(kubernetes) is not None

    stop(kubernetes, 1)
    come_back(kubernetes, 1)
    assert roll_of(kubernetes) is None
    assert kubernetes.cluster.status.revision == "new"


# -- windows


def test_outside_of_its_windows_a_cluster_restarts_nothing_and_says_when_it_will() -> None:
    kubernetes = running(rollPolicy=SATURDAYS)
    kubernetes.roll_out(1, 2, 3)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    applied = condition(kubernetes, "ConfigurationApplied")
    assert applied.reason == "WaitingForWindow"
    assert applied.message.endswith("which opens at 2026-01-03T02:00:00Z")
    assert condition(kubernetes, "Quiesced").status is ConditionStatus.TRUE, "nothing goes on"
    roll = roll_of(kubernetes)
    assert roll is not None
    assert (roll.state, roll.continues_at) == (RollState.PENDING, OPENS_AT)

    wait_ms = kubernetes.plan().requeue_after_ms
    assert wait_ms is not None
    kubernetes.now += timedelta(milliseconds=wait_ms)
    assert restarts(kubernetes) == [1]
    kubernetes.settle()
    roll = roll_of(kubernetes)
    assert roll is not None
    assert (roll.state, roll.continues_at) == (RollState.ONGOING, None)


def test_a_restart_that_has_begun_ends_after_the_window_and_the_next_one_waits() -> None:
    kubernetes = running(rollPolicy=SATURDAYS)
    kubernetes.roll_out(1, 2, 3)
    kubernetes.now = OPENS_AT
    assert restarts(kubernetes) == [1]
    stop(kubernetes, 1)

    kubernetes.now = OPENS_AT + timedelta(hours=3)
    come_back(kubernetes, 1)
    assert restarts(kubernetes) == []
    roll = roll_of(kubernetes)
    assert roll is not None
    assert (roll.brokers, roll.continues_at) == ((2, 3), OPENS_AT + timedelta(days=7))
    kubernetes.now = OPENS_AT + timedelta(days=7)
    assert restarts(kubernetes) == [2]


def test_a_requested_restart_waits_for_the_window_too() -> None:
    kubernetes = running(rollPolicy={**SATURDAYS, "approval": "Manual"})
    wish = {labels.MANUAL_ROLLING_UPDATE: "true"}
    kubernetes.stateful_sets = {BrokerId(2): StatefulSetState(name="b-2", annotations=wish)}
    kubernetes.settle()

    assert restarts(kubernetes) == []
    roll = roll_of(kubernetes)
    assert roll is not None
    assert (roll.cause, roll.continues_at) == ("requested by an annotation", OPENS_AT)
    kubernetes.now = OPENS_AT
    assert restarts(kubernetes) == [2], "a request needs no approval"


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("0", "*/30", "45")),
            st.sampled_from(("*", "2", "3-5", "23")),
            st.sampled_from(("*", "6", "mon-fri")),
            st.sampled_from(("1m", "1h", "25h")),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(("UTC", "Europe/Berlin", "America/New_York")),
    st.integers(0, 366 * 24 * 60),
)
def test_a_roll_that_waits_always_continues(
    windows: Iterable[tuple[str, ...]], zone: str, minutes: int
) -> None:
    kubernetes = ROLLING
    listed = [
        {"schedule": f"{minute} {hour} * * {day}", "duration": duration}
        for minute, hour, day, duration in windows
    ]
    kubernetes.configure(3, rollPolicy={"windows": listed, "timeZone": zone})
    kubernetes.now = START + timedelta(minutes=minutes)

    if restarts(kubernetes) == []:
        wait_ms = None
        while restarts(kubernetes) == []:
            wait_ms = kubernetes.plan().requeue_after_ms
            assert wait_ms is not None
            assert wait_ms > 0
            kubernetes.now += timedelta(milliseconds=wait_ms)
        assert wait_ms is not None
    assert restarts(kubernetes) == [1]


ROLLING = running()
ROLLING.roll_out(1, 2, 3)
START = ROLLING.now


# -- approval


def test_a_change_waits_for_the_approval_of_its_revision() -> None:
    kubernetes = running(rollPolicy={"approval": "Manual"})
    kubernetes.annotate(approved_revision="older")
    kubernetes.roll_out(1, 2, 3)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    applied = condition(kubernetes, "ConfigurationApplied")
    assert applied.reason == "WaitingForApproval"
    assert applied.message.endswith(
        "waiting for your approval: set metadata.annotations[chiplog.dev/approved-revision] of the "
        "BrokerCluster to new (it is 'older')"
    )
    kubernetes.annotate(approved_revision="new")
    assert restarts(kubernetes) == [1]

    kubernetes.roll_out(1, 2, 3, revision="newer")
    assert restarts(kubernetes) == [], "an approval is of one revision only"


def test_an_approved_change_still_waits_for_its_window() -> None:
    kubernetes = running(rollPolicy={**SATURDAYS, "approval": "Manual"})
    kubernetes.roll_out(1)
    kubernetes.settle()
    assert condition(kubernetes, "ConfigurationApplied").message.endswith(
        "; then waiting for the next window of spec.rollPolicy, which opens at 2026-01-03T02:00:00Z"
    )

    kubernetes.annotate(approved_revision="new")
    kubernetes.settle()
    assert condition(kubernetes, "ConfigurationApplied").reason == "WaitingForWindow"


# -- racks


def in_racks(racks: str, **policy: Any) -> Kubernetes:
    """Brokers in these racks, one letter each."""
    kubernetes = Kubernetes(len(racks), rack={"topologyKey": "zone"}, rollPolicy=policy)
    kubernetes.zones = {BrokerId(number): rack for number, rack in enumerate(racks, 1)}
    kubernetes.run()
    config = {"min.insync.replicas": 2}
    kubernetes.apply(topic(partitions=len(racks), replicas=3, config=config))
    kubernetes.settle()
    return kubernetes


def test_brokers_of_one_rack_are_restarted_together_and_racks_one_after_the_other() -> None:
    kubernetes = in_racks("abcabc", maxParallelPerRack=2)
    kubernetes.roll_out(*range(1, 7))
    order = []
    for _ in range(3):
        actions = restart_actions(kubernetes)
        order.append([one.broker_id for one in actions])
        for one in actions:
            assert set(one.must_be_ready) == set(range(1, 7)) - set(order[-1])
        for broker_id in order[-1]:
            stop(kubernetes, broker_id)
            assert set(restarts(kubernetes)) < set(order[-1]), "nobody else"
        for broker_id in order[-1]:
            come_back(kubernetes, broker_id)

    assert order == [[1, 4], [2, 5], [3, 6]]
    assert restarts(kubernetes) == []


def test_without_a_known_rack_brokers_are_restarted_one_at_a_time() -> None:
    kubernetes = in_racks("aaa", maxParallelPerRack=3)
    kubernetes.roll_out(1, 2, 3)
    assert restarts(kubernetes) == [1], "each partition has all its replicas in the rack"

    kubernetes.brokers = {
        key: replace(one, spec=replace(one.spec, rack=None))
        for key, one in kubernetes.brokers.items()
    }
    kubernetes.maps = {}
    assert restarts(kubernetes) == [1]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=7),
    st.integers(1, 4),
    st.data(),
)
def test_never_two_racks_and_never_below_min_isr(
    racks: list[str], max_parallel: int, data: st.DataObject
) -> None:
    kubernetes = in_racks("".join(racks), maxParallelPerRack=max_parallel)
    everyone = range(1, len(racks) + 1)
    some = st.sets(st.sampled_from(everyone))
    kubernetes.roll_out(*data.draw(some))
    for broker_id in sorted(data.draw(some)):
        what = data.draw(st.sampled_from(("deleting", "ready", "killed", "starting")))
        pod = kubernetes.pods[BrokerId(broker_id)]
        if what == "killed":
            kubernetes.kill(broker_id)
            kubernetes.settle()
        kubernetes.pods[BrokerId(broker_id)] = replace(
            pod, ready=False, deleting=what == "deleting", starting=what == "starting"
        )
    world = kubernetes.world()
    states = find_broker_states(world, frozenset())
    going = {one for one, pod in world.pods.items() if pod.deleting}

    chosen = set(restarts(kubernetes))

    if chosen:
        assert len(chosen | going) <= max_parallel
        assert len({racks[one - 1] for one in chosen | going}) == 1
        assert find_limits(world.maps, states).allow(frozenset(chosen | going))
        assert not any(world.pods[one].starting for one in chosen)
        well = [one for one in chosen if world.pods[one].ready]
        down = {one for one, pod in world.pods.items() if not pod.ready}
        if well:
            assert len({racks[one - 1] for one in chosen | down}) == 1


# -- brokers that recover


@pytest.mark.parametrize("recovering", [1, 2])
def test_a_broker_that_recovers_is_not_restarted_and_the_roll_waits_for_it(
    recovering: int,
) -> None:
    kubernetes = running()
    stop(kubernetes, recovering)
    pod = kubernetes.pods[BrokerId(recovering)]
    kubernetes.pods[BrokerId(recovering)] = replace(pod, deleting=False, starting=True)
    kubernetes.roll_out(1, 2, 3)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert condition(kubernetes, "ConfigurationApplied").message == (
        "brokers 1, 2, 3 must restart for a changed configuration; waiting for broker "
        f"{recovering} to start, which may take long if logs are recovered; without brokers "
        f"{', '.join(str(one) for one in (1, 2, 3) if one != recovering)}, partitions would have "
        "fewer in-sync replicas than their min.insync.replicas"
    )
    # A crash is no recovery: the change may repair it.
    pod = kubernetes.pods[BrokerId(recovering)]
    kubernetes.pods[BrokerId(recovering)] = replace(pod, starting=False, message="CrashLoopBackOff")
    assert restarts(kubernetes) == [recovering]


# -- brokers that cannot start


def broken(kubernetes: Kubernetes, **of_pod: Any) -> None:
    """Broker 1 does not come back after its restart for revision "bad"."""
    kubernetes.roll_out(1, 2, 3, revision="bad")
    stop(kubernetes, 1)
    pod = kubernetes.pods[BrokerId(1)]
    kubernetes.pods[BrokerId(1)] = replace(
        pod, deleting=False, revision="bad", unready_since=NOW, **of_pod
    )
    kubernetes.silent_ms = {BrokerId(1): 60_000}
    kubernetes.settle()


def correct(kubernetes: Kubernetes) -> None:
    """The spec is as before; the other brokers were not restarted."""
    kubernetes.roll_out(1, 2, 3, revision="")
    kubernetes.settle()


HANGS: dict[str, Any] = {"starting": True, "running_since": NOW}
KILLED: dict[str, Any] = {**HANGS, "ran_out_of_memory": True}
NOT_PULLED: dict[str, Any] = {"message": "ImagePullBackOff: no such image"}


@pytest.mark.parametrize("of_pod", [HANGS, KILLED, NOT_PULLED], ids=["hangs", "killed", "image"])
def test_a_broker_that_cannot_start_is_restarted_when_the_spec_is_right_again(
    of_pod: dict[str, Any],
) -> None:
    kubernetes = running()
    broken(kubernetes, **of_pod)
    kubernetes.now = NOW + PATIENCE
    kubernetes.settle()
    assert restarts(kubernetes) == [], "it would not start with the same spec either"
    assert "broker 1 cannot start (the condition Ready says why): correct the spec" in (
        condition(kubernetes, "ConfigurationApplied").message
    )

    correct(kubernetes)

    (restart,) = restart_actions(kubernetes)
    assert restart.broker_id == 1
    assert set(restart.must_be_ready) == {2, 3}


def test_ready_says_that_the_memory_limit_is_too_small() -> None:
    kubernetes = running()
    broken(kubernetes, **KILLED)

    assert condition(kubernetes, "Ready").message == (
        "broker 1: ran out of memory and cannot start (OOMKilled): raise "
        "spec.resources.limits.memory"
    )
    pod = kubernetes.pods.pop(BrokerId(1))
    kubernetes.now = NOW + PATIENCE
    assert restarts(kubernetes) == [], "there is nothing to delete"
    # Between two attempts nothing changes.
    kubernetes.pods[BrokerId(1)] = replace(pod, starting=False)
    correct(kubernetes)
    assert restarts(kubernetes) == [1]


def test_a_broker_that_hangs_is_given_time_and_the_plan_is_made_again_then() -> None:
    kubernetes = running()
    broken(kubernetes, **HANGS)
    correct(kubernetes)
    kubernetes.now = NOW + PATIENCE - timedelta(milliseconds=1)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert kubernetes.plan().requeue_after_ms in {1, 2}
    kubernetes.now = NOW + PATIENCE
    assert restarts(kubernetes) == [1]
    # Its Lease may be late while it recovers.
    kubernetes.silent_ms = {BrokerId(1): 59_900}
    assert restarts(kubernetes) == []
    assert kubernetes.plan().requeue_after_ms == 101


@pytest.mark.parametrize(("ago", "restarted"), [(None, []), (0, []), (59, []), (60, [1])], ids=str)
def test_a_container_that_has_just_begun_is_given_time_to_renew(
    ago: int | None, restarted: list[int]
) -> None:
    """Its node was away for so long that the last process's Lease is old."""
    kubernetes = running()
    kubernetes.now = NOW + timedelta(hours=1)
    since = None if ago is None else kubernetes.now - timedelta(seconds=ago)
    broken(kubernetes, starting=True, running_since=since)
    correct(kubernetes)
    kubernetes.silent_ms = {BrokerId(1): 3_600_000}
    kubernetes.settle()

    assert restarts(kubernetes) == restarted


def test_a_broker_that_has_started_is_not_unable_whatever_other_containers_do() -> None:
    kubernetes = running()
    broken(kubernetes, has_started=True, message="CrashLoopBackOff: of a sidecar")
    kubernetes.now = NOW + timedelta(hours=1)
    kubernetes.settle()

    assert not unable_to_start(kubernetes.world(), kubernetes.now)


@pytest.mark.parametrize("silent_ms", [{}, {BrokerId(1): 1_500}], ids=["unknown", "renewed"])
def test_a_broker_that_renews_its_lease_recovers_however_long_it_takes(
    silent_ms: dict[BrokerId, int],
) -> None:
    kubernetes = running()
    broken(kubernetes, **HANGS)
    correct(kubernetes)
    kubernetes.now = NOW + timedelta(hours=10)
    kubernetes.silent_ms = silent_ms
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert "waiting for broker 1 to start, which may take long" in (
        condition(kubernetes, "ConfigurationApplied").message
    )


def test_a_pod_without_a_known_time_recovers() -> None:
    kubernetes = running()
    broken(kubernetes, **HANGS)
    correct(kubernetes)
    kubernetes.now = NOW + timedelta(hours=10)
    pod = kubernetes.pods[BrokerId(1)]
    kubernetes.pods[BrokerId(1)] = replace(pod, unready_since=None)
    kubernetes.settle()

    assert restarts(kubernetes) == []


def test_a_broker_that_cannot_start_waits_for_no_window_but_for_its_approval() -> None:
    kubernetes = running(rollPolicy=SATURDAYS)
    broken(kubernetes, **NOT_PULLED)
    correct(kubernetes)
    assert restarts(kubernetes) == [], "it may be pulled yet"

    kubernetes.now = NOW + PATIENCE
    kubernetes.settle()
    assert restarts(kubernetes) == [1]
    kubernetes.roll_out(1, 2, 3, revision="better")
    kubernetes.settle()
    assert restarts(kubernetes) == [1], "nobody else outside of the window"

    kubernetes.configure(rollPolicy={**SATURDAYS, "approval": "Manual"})
    kubernetes.settle()
    assert restarts(kubernetes) == []


def test_a_map_that_cannot_be_parsed_may_need_any_broker() -> None:
    kubernetes = running()
    kubernetes.roll_out(1)
    seen: dict[str, Any] = {"unreadable_maps": frozenset({"demo.odd"})}
    kubernetes.settle(**seen)

    actions = kubernetes.plan(**seen).actions
    assert not [one for one in actions if isinstance(one, RestartPod)]
    assert "waiting until PartitionMap demo.odd can be parsed" in (
        condition(kubernetes, "ConfigurationApplied").message
    )


@pytest.mark.parametrize(
    ("seen", "reason", "named"),
    [
        ({"unreadable_brokers": {"demo-3": "is odd"}}, "BrokerUnreadable", "demo-3: is odd"),
        (
            {"unreadable_maps": frozenset({"demo.odd"})},
            "PartitionMapUnreadable",
            "PartitionMap demo.odd cannot be parsed",
        ),
    ],
)
def test_nobody_knows_whether_what_cannot_be_parsed_has_the_configuration(
    seen: dict[str, Any], reason: str, named: str
) -> None:
    kubernetes = running()
    assert condition(kubernetes, "ConfigurationApplied").status is ConditionStatus.TRUE
    kubernetes.settle(**seen)

    told = condition(kubernetes, "ConfigurationApplied")
    assert (told.status, told.reason) == (ConditionStatus.UNKNOWN, reason)
    assert named in told.message
    assert condition(kubernetes, "Stable").status is ConditionStatus.FALSE
    kubernetes.settle()
    assert condition(kubernetes, "ConfigurationApplied").status is ConditionStatus.TRUE


def test_a_plan_that_shrinks_an_isr_restarts_nobody() -> None:
    """The limits are those from before: without broker 3, broker 1 would be needed."""
    kubernetes = running(4)
    kubernetes.roll_out(4)
    assert restarts(kubernetes) == [4]
    kubernetes.kill(4)

    assert restarts(kubernetes) == [], "this plan takes it out of the ISRs"
    kubernetes.settle()
    assert restarts(kubernetes) == [4]


# -- by hand


def with_stateful_sets(kubernetes: Kubernetes) -> Kubernetes:
    kubernetes.stateful_sets = {
        broker_id: StatefulSetState(name=f"demo-broker-{broker_id}")
        for broker_id in kubernetes.brokers
    }
    return kubernetes


def test_the_annotation_of_the_cluster_restarts_each_broker_once() -> None:
    kubernetes = with_stateful_sets(running())
    kubernetes.annotate(manual_rolling_update="true")

    (handed_on,) = kubernetes.plan().actions
    assert restarts(kubernetes) == []
    kubernetes.do(handed_on)
    assert restarts(kubernetes) == [], "the first only when the cluster's annotation is gone"
    kubernetes.settle()
    assert labels.MANUAL_ROLLING_UPDATE not in kubernetes.cluster.metadata.annotations

    order = []
    for _ in range(3):
        (restart,) = restart_actions(kubernetes)
        order.append(restart.broker_id)
        assert restart.requested_by == f"demo-broker-{restart.broker_id}"
        stop(kubernetes, restart.broker_id)
        kubernetes.stateful_sets = {
            **kubernetes.stateful_sets,
            restart.broker_id: StatefulSetState(name=restart.requested_by),
        }
        come_back(kubernetes, restart.broker_id)
    assert order == [1, 2, 3]
    assert restarts(kubernetes) == []
    assert roll_of(kubernetes) is None


def test_without_stateful_sets_the_request_stays() -> None:
    kubernetes = running()
    kubernetes.annotate(manual_rolling_update="true")

    assert kubernetes.plan().actions == ()
    seen: dict[str, Any] = {"is_complete": False}
    assert with_stateful_sets(kubernetes).plan(**seen).actions == (), "others may exist"


def test_a_value_that_is_none_restarts_nothing_and_is_reported() -> None:
    kubernetes = with_stateful_sets(running())
    kubernetes.annotate(manual_rolling_update="yes")
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert "is 'yes', so no broker is restarted" in condition(kubernetes, "Warning").message


def test_a_roll_that_waited_for_its_window_is_not_blocked_when_it_opens() -> None:
    kubernetes = running(4, rollPolicy=SATURDAYS)
    kubernetes.roll_out(1)
    kubernetes.settle()
    kubernetes.now = OPENS_AT
    kubernetes.kill(4)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert condition(kubernetes, "ConfigurationApplied").reason == "WaitingToRestart"
    kubernetes.now = OPENS_AT + timedelta(minutes=5)
    kubernetes.settle()
    assert condition(kubernetes, "ConfigurationApplied").reason == "RestartBlocked"


def test_a_new_topic_shrinks_no_isr() -> None:
    kubernetes = running()
    created = Create(resource=kubernetes.maps["orders"])

    assert not shrinks_any_isr(kubernetes.maps, [created])


def test_two_brokers_with_replicas_of_one_partition_are_not_restarted_together() -> None:
    kubernetes = in_racks("aabb", maxParallelPerRack=2)
    config = {"min.insync.replicas": 1}
    kubernetes.apply(topic(partitions=4, replicas=3, config=config))
    kubernetes.settle()
    kubernetes.roll_out(1, 2, 3, 4)

    assert restarts(kubernetes) == [1], "others have a replica of a partition of broker 1"
    kubernetes.maps = {}
    assert restarts(kubernetes) == [1, 2]
