"""A broker's volume is deleted on request only when others certainly have everything."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RebuildVolume, RestartPod
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.model.conditions import ConditionType
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.reassignment import Leftover
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import ClaimState, StatefulSetState
from chiplog_core.planner.volumes.survivors import find_needs
from tests.planner.model import Kubernetes
from tests.planner.objects import internal_topics, partitions_of, topic

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def running(replicas: int = 3, **config: object) -> Kubernetes:
    kubernetes = Kubernetes(3, config=internal_topics(replicas=3))
    kubernetes.apply(topic(partitions=3, replicas=replicas, config=config))
    kubernetes.run()
    kubernetes.claims = {
        broker_id: ClaimState(name=f"data-demo-broker-{broker_id}-0", uid=f"claim-{broker_id}")
        for broker_id in kubernetes.brokers
    }
    return kubernetes


def annotate(kubernetes: Kubernetes, *numbers: int, value: str = "true") -> None:
    for number in numbers:
        pod = kubernetes.pods[BrokerId(number)]
        annotations = {labels.DELETE_POD_AND_PVC: value}
        kubernetes.pods[BrokerId(number)] = replace(pod, annotations=annotations)


def rebuilds(kubernetes: Kubernetes) -> list[RebuildVolume]:
    """The rebuild that is due when leaderships have been handed over."""
    kubernetes.settle(30)
    return [one for one in kubernetes.plan().actions if isinstance(one, RebuildVolume)]


def refusal(kubernetes: Kubernetes) -> tuple[str, str]:
    """Reason and message of the condition RebuildRefused; empty texts without it."""
    kubernetes.settle()
    for one in kubernetes.cluster.status.conditions:
        if one.type == ConditionType.REBUILD_REFUSED:
            return one.reason, one.message
    return "", ""


def change(kubernetes: Kubernetes, **fields: object) -> None:
    """Change the first partition in the map of the topic."""
    found = kubernetes.maps["orders"]
    (generation,) = found.spec.generations
    first: PartitionState = replace(generation.partitions[0], **fields)  # type: ignore[arg-type]
    generation = replace(generation, partitions=(first, *generation.partitions[1:]))
    spec = replace(found.spec, generations=(generation,))
    kubernetes.maps["orders"] = kubernetes.stored(replace(found, spec=spec))


def test_pod_and_claim_are_named_by_uid_and_what_was_seen_by_version() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)

    (rebuild,) = rebuilds(kubernetes)

    pod = kubernetes.pods[TWO]
    assert (rebuild.broker_id, rebuild.pod_name, rebuild.pod_uid) == (TWO, pod.name, pod.uid)
    assert rebuild.claim_uid == "claim-2"
    assert rebuild.serving == {
        kubernetes.pods[one].name: kubernetes.pods[one].uid for one in (ONE, THREE)
    }
    assert rebuild.basis.maps == {
        one.metadata.name: one.metadata.resource_version for one in kubernetes.maps.values()
    }
    assert set(rebuild.basis.brokers) == {"demo-1", "demo-2", "demo-3"}
    assert rebuild.basis.cluster_uid == kubernetes.cluster.metadata.uid
    assert refusal(kubernetes) == ("", "")


@pytest.mark.parametrize("value", ["false", "yes"])
def test_other_values_delete_nothing(value: str) -> None:
    kubernetes = running()
    annotate(kubernetes, 2, value=value)
    assert rebuilds(kubernetes) == []
    kubernetes.settle()
    warned = [one for one in kubernetes.cluster.status.conditions if one.type == "Warning"]
    assert bool(warned) is (value == "yes")


@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
def test_the_annotation_counts_only_on_the_pod_itself(place: str) -> None:
    kubernetes = running()
    given_there: dict[str, Mapping[str, str]] = {place: {labels.DELETE_POD_AND_PVC: "true"}}
    kubernetes.stateful_sets = {
        TWO: StatefulSetState(name="demo-broker-2", **given_there),
    }
    if place == "template_annotations":
        annotate(kubernetes, 2)  # as every new pod of that template
    assert rebuilds(kubernetes) == []
    kubernetes.settle()
    (warning,) = [one for one in kubernetes.cluster.status.conditions if one.type == "Warning"]
    assert "annotate the pod itself" in warning.message


def test_a_pod_without_a_claim_is_made_again_as_well() -> None:
    kubernetes = running()
    kubernetes.claims = {}
    annotate(kubernetes, 2)
    assert [one.claim_uid for one in rebuilds(kubernetes)] == [""]


def test_the_only_replica_is_kept() -> None:
    kubernetes = running(replicas=1)
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes) == []
    reason, message = refusal(kubernetes)
    assert reason == "LastInSyncReplica"
    assert "orders-1" in message
    assert "orders-0" not in message
    assert "pod demo-broker-2-0" in message


def test_a_dead_broker_goes_although_the_map_still_lists_it() -> None:
    """Both members of the ISR are listed, as min.insync.replicas asks for; one is alive."""
    kubernetes = running(replicas=2, **{"min.insync.replicas": 2})
    kubernetes.kill(2)
    kubernetes.pods[TWO] = replace(kubernetes.pods[TWO], ready=False)
    kubernetes.settle()
    annotate(kubernetes, 2)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [TWO]
    assert set(rebuilds(kubernetes)[0].serving) == {"demo-broker-1-0", "demo-broker-3-0"}


def test_a_dead_replica_is_no_survivor_however_much_in_sync_it_looks() -> None:
    kubernetes = running(replicas=2, **{"min.insync.replicas": 2})
    kubernetes.kill(3)
    kubernetes.pods[THREE] = replace(kubernetes.pods[THREE], ready=False)
    kubernetes.settle()
    annotate(kubernetes, 2, 3)

    # Broker 3 may be rebuilt: 1 and 2 have everything. Broker 2 may not: where its only partner is
    # 3, nobody else is alive.
    assert [one.broker_id for one in rebuilds(kubernetes)] == [THREE]
    assert refusal(kubernetes)[0] == "LastInSyncReplica"


def test_a_member_whose_pod_is_not_ready_is_no_survivor() -> None:
    kubernetes = running(replicas=2)
    kubernetes.pods[THREE] = replace(kubernetes.pods[THREE], ready=False)
    annotate(kubernetes, 2, 3)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [THREE]
    assert refusal(kubernetes)[0] == "LastInSyncReplica"


def test_a_restarted_member_is_no_survivor_in_its_old_session() -> None:
    kubernetes = running(replicas=2)
    world = kubernetes.world()
    states = find_broker_states(world, awaiting_admission(world))
    assert find_needs(ONE, world, states).last == []
    kubernetes.start(2)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.obey()
    old = [
        state
        for _, _, state in partitions_of(kubernetes.maps.values())
        if any(
            one.broker_id == TWO and one.session < kubernetes.brokers[TWO].spec.session
            for one in state.isr
        )
    ]
    assert old, "some ISR lists the session before"
    world = kubernetes.world()
    states = find_broker_states(world, awaiting_admission(world))
    partners = {
        f"orders-{state.partition}"
        for name, _, state in partitions_of(kubernetes.maps.values())
        if name == "orders" and set(state.replicas) == {1, 2}
    }
    assert partners <= set(find_needs(ONE, world, states).last)


def test_min_isr_is_kept() -> None:
    kubernetes = running(replicas=3, **{"min.insync.replicas": 2})
    world = kubernetes.world()
    states = find_broker_states(world, awaiting_admission(world))
    (generation,) = kubernetes.maps["orders"].spec.generations
    first = generation.partitions[0]
    change(kubernetes, isr=tuple(one for one in first.isr if one.broker_id != 3))
    needs = find_needs(TWO, kubernetes.world(), states)
    assert (needs.last, needs.low) == ([], ["orders-0"])
    annotate(kubernetes, 2)
    kubernetes.pods[THREE] = replace(kubernetes.pods[THREE])
    assert rebuilds(kubernetes) == []


def test_it_says_that_min_isr_would_not_be_kept() -> None:
    kubernetes = running(replicas=3, **{"min.insync.replicas": 2})
    (generation,) = kubernetes.maps["orders"].spec.generations
    first = generation.partitions[0]
    change(kubernetes, isr=tuple(one for one in first.isr if one.broker_id != 3))
    annotate(kubernetes, 2, 3)  # so that 2 does not wait for 3
    assert [one.broker_id for one in rebuilds(kubernetes)] == [THREE]
    reason, message = refusal(kubernetes)
    assert reason == "WaitingForReplicas"
    assert "orders-0" in message


@pytest.mark.parametrize(
    "fields",
    [
        {"leader": None},
        {"reports_wanted": True},
        {"leftovers": (Leftover(broker=TWO),)},
    ],
)
def test_what_is_not_settled_is_waited_for(fields: dict[str, object]) -> None:
    kubernetes = running(replicas=3)
    change(kubernetes, **fields)
    world = kubernetes.world()
    states = find_broker_states(world, awaiting_admission(world))
    assert find_needs(TWO, world, states).last == ["orders-0"]


def test_a_leftover_that_may_go_is_not_needed() -> None:
    kubernetes = running(replicas=1)
    (generation,) = kubernetes.maps["orders"].spec.generations
    first = generation.partitions[0]
    change(kubernetes, leftovers=(Leftover(broker=TWO, removable_since=first.partition_epoch),))
    world = kubernetes.world()
    states = find_broker_states(world, awaiting_admission(world))
    assert "orders-0" not in find_needs(TWO, world, states).last


def test_damaged_and_stopping_members_are_no_survivors() -> None:
    for fields in ({"draining": True}, {"damaged": True}):
        kubernetes = running(replicas=2)
        for number in (1, 3):
            status = kubernetes.brokers[BrokerId(number)].status
            if "draining" in fields:
                kubernetes.status(number, replace(status, draining=True))
            else:
                damaged = tuple(
                    DamagedPartition(
                        topic_id=generation.topic_id, partition=state.partition, file="0.log"
                    )
                    for _, generation, state in partitions_of(kubernetes.maps.values())
                )
                directory = replace(status.directories[0], damaged=damaged)
                kubernetes.status(number, replace(status, directories=(directory,)))
        world = kubernetes.world()
        states = find_broker_states(world, awaiting_admission(world))
        assert len(find_needs(TWO, world, states).last) >= 2


def test_one_at_a_time_and_not_while_another_is_away() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    pod = kubernetes.pods[THREE]
    for busy in (replace(pod, deleting=True), replace(pod, ready=False)):
        kubernetes.pods[THREE] = busy
        assert rebuilds(kubernetes) == []
        reason, message = refusal(kubernetes)
        assert reason == "WaitingForBrokers"
        assert "broker 3" in message
    kubernetes.pods[THREE] = pod
    annotate(kubernetes, 1, 2, 3)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [ONE]


def test_one_that_is_down_goes_first() -> None:
    kubernetes = running()
    kubernetes.kill(3)
    kubernetes.pods[THREE] = replace(kubernetes.pods[THREE], ready=False)
    kubernetes.settle()
    annotate(kubernetes, 2, 3)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [THREE]


def led_by(kubernetes: Kubernetes) -> set[int]:
    states = partitions_of(kubernetes.maps.values())
    return {0 if state.leader is None else state.leader.broker_id for _, _, state in states}


def test_it_gives_up_its_leaderships_first() -> None:
    """While it leads, its ISR may shrink to itself after the proof."""
    kubernetes = running()
    assert TWO in led_by(kubernetes)
    annotate(kubernetes, 2)

    for _ in range(10):
        actions = kubernetes.plan().actions
        if any(isinstance(one, RebuildVolume) for one in actions):
            break
        kubernetes.execute(actions)
        kubernetes.obey()
    else:
        raise AssertionError("it is never rebuilt")
    assert led_by(kubernetes) == {1, 3}
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.DRAIN

    annotate(kubernetes, 2, value="false")
    kubernetes.settle()
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.SERVE


def test_it_gives_up_its_leaderships_only_in_its_turn() -> None:
    kubernetes = running()
    well = kubernetes.pods[THREE]
    kubernetes.pods[THREE] = replace(well, ready=False)
    annotate(kubernetes, 2)
    assert refusal(kubernetes)[0] == "WaitingForBrokers"
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.SERVE
    assert TWO in led_by(kubernetes)

    kubernetes.pods[THREE] = well
    kubernetes.settle()
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.DRAIN
    kubernetes.pods[THREE] = replace(well, ready=False)
    kubernetes.settle()
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.SERVE


def test_it_says_that_nobody_takes_its_leaderships() -> None:
    kubernetes = running()
    kubernetes.cordoned = {"node-1", "node-2", "node-3"}
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes) == []
    reason, message = refusal(kubernetes)
    assert reason == "WaitingForLeaders"
    assert "orders-" in message


def test_it_goes_before_a_rolling_restart() -> None:
    kubernetes = running()
    kubernetes.revisions = dict.fromkeys(kubernetes.pods, "new")
    annotate(kubernetes, 2)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [TWO]
    assert not [one for one in kubernetes.plan().actions if isinstance(one, RestartPod)]


@pytest.mark.parametrize(
    "unknown",
    [
        {"is_complete": False},
        {"unreadable_maps": frozenset({"demo.other"})},
        {"unreadable_brokers": {"demo-4": "is from the future"}},
        {"maps_check": "new"},
    ],
)
def test_nothing_is_deleted_while_something_is_unknown(unknown: dict[str, object]) -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    actions = kubernetes.plan(**unknown).actions
    assert not [one for one in actions if isinstance(one, RebuildVolume)]


def test_brokers_that_compare_their_disks_are_waited_for() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    kubernetes.settle()
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.DRAIN
    kubernetes.maps_check = "new"
    kubernetes.execute(kubernetes.plan().actions)
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.DRAIN, "it stays so meanwhile"
    (condition,) = [
        one
        for one in kubernetes.cluster.status.conditions
        if one.type == ConditionType.REBUILD_REFUSED
    ]
    assert condition.reason == "WaitingForMetadata"


def test_a_newer_report_that_names_it_is_waited_for() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    for one in kubernetes.brokers.values():
        assert one.status.replica_reports == ()
    kubernetes.maps.pop("orders")  # brokers know more than there is
    kubernetes.obey()
    assert kubernetes.brokers[ONE].status.replica_reports
    topics, kubernetes.topics = kubernetes.topics, {}
    assert rebuilds(kubernetes) == []
    kubernetes.execute(kubernetes.plan().actions)
    reasons = [one.reason for one in kubernetes.cluster.status.conditions]
    assert "WaitingForMetadata" in reasons
    kubernetes.topics = topics


def test_a_paused_cluster_is_left_alone() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    meta = replace(kubernetes.cluster.metadata, annotations={labels.PAUSE: "true"})
    kubernetes.cluster = replace(kubernetes.cluster, metadata=meta)
    assert rebuilds(kubernetes) == []


def test_many_partitions_are_counted() -> None:
    kubernetes = Kubernetes(1)
    kubernetes.apply(topic(partitions=9, replicas=1))
    kubernetes.run()
    annotate(kubernetes, 1)
    assert "and 6 more" in refusal(kubernetes)[1]


@given(
    st.lists(st.tuples(st.sampled_from(["kill", "start", "settle", "plan"]), st.integers(1, 3))),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_whatever_happened_a_live_confirmed_replica_is_left(
    events: list[tuple[str, int]], replicas: int, lost: int
) -> None:
    kubernetes = running(replicas=replicas)
    for what, number in events:
        if what == "kill":
            kubernetes.kill(number)
        elif what == "start":
            kubernetes.start(number)
        elif what == "plan":
            kubernetes.execute(kubernetes.plan().actions)
        else:
            kubernetes.settle(30)
    annotate(kubernetes, lost)
    for rebuild in rebuilds(kubernetes):
        for _, _, state in partitions_of(kubernetes.maps.values()):
            if rebuild.broker_id not in state.replicas:
                continue
            left = [
                one
                for one in state.isr
                if one.broker_id != lost
                and kubernetes.brokers[one.broker_id].spec.session == one.session
                and kubernetes.brokers[one.broker_id].status.session == one.session
                and kubernetes.brokers[one.broker_id].status.incarnation not in kubernetes.ended
            ]
            assert left, state
