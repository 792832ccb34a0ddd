"""`__consumer_offsets` and `__transaction_state`: made with the cluster, nobody's to change, never
begun again."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.actions import Create
from chiplog_core.model.broker_cluster import BrokerClusterStatus, InternalTopicStatus
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.model.conditions import Condition
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.naming import labels
from chiplog_core.planner.topics.new_maps import ASSEMBLY_TIME
from chiplog_core.problems import Problem
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.planner.model import Kubernetes
from tests.planner.objects import internal_topics, topic

AS_BY_DEFAULT = internal_topics(partitions=50, replicas=3)
MAP_NAMES = {
    CONSUMER_OFFSETS: "demo.consumer-offsets-189fe61b",
    TRANSACTION_STATE: "demo.transaction-state-0709864d",
}
of_each = pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])


def kubernetes_of(
    replicas: int, *, config: dict[str, Any] | None = None, **spec: Any
) -> Kubernetes:
    return Kubernetes(replicas, config={**AS_BY_DEFAULT, **(config or {})}, **spec)


def running(replicas: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = kubernetes_of(replicas, **spec)
    kubernetes.run()
    return kubernetes


def spec_of(kubernetes: Kubernetes, name: str = CONSUMER_OFFSETS) -> PartitionMapSpec:
    return kubernetes.maps[name].spec


def states(kubernetes: Kubernetes, name: str = CONSUMER_OFFSETS) -> tuple[PartitionState, ...]:
    return spec_of(kubernetes, name).generations[0].partitions


def status_of(kubernetes: Kubernetes, name: str) -> InternalTopicStatus | None:
    status = kubernetes.cluster.status
    return status.consumer_offsets if name == CONSUMER_OFFSETS else status.transaction_state


def warning(kubernetes: Kubernetes) -> Condition | None:
    found = (one for one in kubernetes.cluster.status.conditions if one.type == "Warning")
    return next(found, None)


# -- made


@of_each
@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (5, 3, 2)])
def test_it_is_made_with_the_cluster(name: str, brokers: int, replicas: int, min_isr: int) -> None:
    kubernetes = running(brokers)

    spec = spec_of(kubernetes, name)
    assert kubernetes.maps[name].metadata.name == MAP_NAMES[name]
    assert (spec.owner_uid, spec.min_isr) == (None, min_isr)
    assert spec.config == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": "104857600",
    }
    assert len(states(kubernetes, name)) == 50
    assert {len(state.replicas) for state in states(kubernetes, name)} == {replicas}
    led = [state.leader.broker_id for state in states(kubernetes, name) if state.leader]
    assert {led.count(one) for one in kubernetes.brokers} <= {50 // brokers, 50 // brokers + 1}
    assert status_of(kubernetes, name) == InternalTopicStatus(
        topic_id=spec.generations[0].topic_id, partitions=50, replicas=replicas
    )
    assert warning(kubernetes) is None


def test_it_waits_for_as_many_brokers_as_it_has_replicas() -> None:
    kubernetes = kubernetes_of(3)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.start(2)
    kubernetes.settle()
    kubernetes.now += ASSEMBLY_TIME * 2
    kubernetes.settle()

    assert kubernetes.maps == {}
    told = warning(kubernetes)
    assert told is not None
    assert told.message == (
        "__consumer_offsets: needs 3 ready brokers, but there are 2: wait for more brokers, or ask "
        "for fewer replicas; __transaction_state: needs 3 ready brokers, but there are 2: wait for "
        "more brokers, or ask for fewer replicas"
    )

    kubernetes.start(3)
    kubernetes.settle()
    assert len(states(kubernetes)[0].replicas) == 3
    assert warning(kubernetes) is None


def test_two_operators_make_one_topic() -> None:
    kubernetes = kubernetes_of(3)
    kubernetes.settle()
    for broker_id in kubernetes.brokers:
        kubernetes.start(broker_id)
    while not (made := creations(kubernetes)):
        kubernetes.execute(kubernetes.plan().actions)
    other = creations(kubernetes)
    assert made != other, "each has drawn an id"
    kubernetes.execute(made)
    before = spec_of(kubernetes)
    kubernetes.execute(other)
    kubernetes.settle()

    assert spec_of(kubernetes) == before
    assert creations(kubernetes) == []


def creations(kubernetes: Kubernetes) -> list[Create]:
    return [one for one in kubernetes.plan().actions if isinstance(one, Create)]


@pytest.mark.parametrize(
    "changes",
    [
        {"is_complete": False},
        {"unreadable_maps": frozenset(MAP_NAMES.values())},
        {"cluster": None, "cluster_problems": (Problem("spec", "is odd", "mend it"),)},
    ],
    ids=["not all was listed", "maps that do not read", "a cluster that does not read"],
)
def test_it_is_not_made_on_a_guess(changes: dict[str, Any]) -> None:
    kubernetes = running(1)
    kubernetes.maps.clear()
    status = replace(kubernetes.cluster.status, consumer_offsets=None, transaction_state=None)
    kubernetes.cluster = replace(kubernetes.cluster, status=status)

    assert len(creations(kubernetes)) == 2
    made = [one for one in kubernetes.plan(**changes).actions if isinstance(one, Create)]
    assert made == []


def test_topics_of_users_are_placed_and_counted_as_if_there_were_none() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=4))
    kubernetes.settle()

    placed = kubernetes.maps["orders"].spec.generations[0].partitions
    assert [state.replicas for state in placed] == [(1,), (2,), (3,), (1,)]
    status = kubernetes.cluster.status
    assert (status.topics, status.partitions) == (1, 4)


# -- changed


def test_its_configuration_follows_the_cluster_and_what_it_was_made_with_stays() -> None:
    kubernetes = running(1, config={"offsets.topic.replication.factor": 1})
    config = {
        "offsets.topic.num.partitions": 60,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.segment.bytes": 2_097_152,
        "min.insync.replicas": 3,
        "log.cleanup.policy": "delete",
    }
    kubernetes.configure(3, config={**AS_BY_DEFAULT, **config}, durability="PageCache")
    kubernetes.settle()
    for broker_id in (2, 3):
        kubernetes.start(broker_id)
    kubernetes.settle()

    spec = spec_of(kubernetes)
    assert (spec.config["segment.bytes"], spec.config["cleanup.policy"]) == ("2097152", "compact")
    assert (spec.min_isr, spec.durability.value) == (1, "PageCache")
    assert {state.replicas for state in states(kubernetes)} == {(1,)}
    assert len(states(kubernetes)) == 50
    told = warning(kubernetes)
    assert told is not None
    assert told.reason == "NotSupported"
    assert told.message == (
        "spec.config[offsets.topic.num.partitions] is 60, but __consumer_offsets was created "
        "with 50 partitions. Their number determines each group's coordinator and cannot change: "
        "set it back"
    )


def test_a_typo_in_the_cluster_changes_nothing() -> None:
    kubernetes = running(1, config={"offsets.topic.segment.bytes": 2_097_152})
    before = spec_of(kubernetes)
    kubernetes.configure(config={"offsets.topic.segment.byte": 1})
    kubernetes.settle()

    assert spec_of(kubernetes) == before


@pytest.mark.parametrize(
    ("asked", "brokers", "min_isr"), [(1, 3, 1), (2, 3, 2), (3, 3, 2), (3, 2, 1), (2, 1, 1)]
)
def test_the_min_isr_of_transactions_leaves_one_broker_free_to_restart(
    asked: int, brokers: int, min_isr: int
) -> None:
    kubernetes = running(brokers, config={"transaction.state.log.min.isr": asked})
    assert spec_of(kubernetes, TRANSACTION_STATE).min_isr == min_isr
    assert spec_of(kubernetes).min_isr == {1: 1, 2: 1, 3: 2}[brokers]


def test_a_cluster_of_an_earlier_version_gets_the_topic_of_transactions() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=4))
    del kubernetes.maps[TRANSACTION_STATE]
    status = replace(kubernetes.cluster.status, transaction_state=None)
    kubernetes.cluster = replace(kubernetes.cluster, status=status)
    others = {name: one.spec for name, one in kubernetes.maps.items()}
    kubernetes.settle()

    assert len(states(kubernetes, TRANSACTION_STATE)) == 50
    assert {name: kubernetes.maps[name].spec for name in others} == others


# -- kept


def test_a_cluster_applied_again_takes_it_over_with_its_records() -> None:
    kubernetes = running()
    before = spec_of(kubernetes)
    meta = replace(kubernetes.cluster.metadata, uid="uid-of-the-next")
    kubernetes.cluster = replace(kubernetes.cluster, metadata=meta, status=BrokerClusterStatus())
    kubernetes.settle()

    assert spec_of(kubernetes) == before
    status = kubernetes.cluster.status.consumer_offsets
    assert status is not None
    assert status.topic_id == before.current


@of_each
def test_a_map_that_is_gone_is_rebuilt_and_never_made_fresh(name: str) -> None:
    kubernetes = running()
    before = spec_of(kubernetes, name)
    for broker_id in (2, 3):
        kubernetes.kill(broker_id)
        kubernetes.settle()
    del kubernetes.maps[name]
    kubernetes.settle()

    assert name not in kubernetes.maps
    told = warning(kubernetes)
    assert told is not None
    assert told.reason == "MetadataMissing"
    assert told.message.startswith(f"{name}: the PartitionMap of topic id")
    assert told.message.endswith("has been reported yet")

    for broker_id in (2, 3):
        kubernetes.start(broker_id)
    kubernetes.settle()
    assert spec_of(kubernetes, name).current == before.current
    assert spec_of(kubernetes, name).config == before.config
    assert len(states(kubernetes, name)) == 50
    assert all(state.leader is not None for state in states(kubernetes, name))


def test_a_loss_is_told_by_the_cluster_and_accepted_on_the_map() -> None:
    kubernetes = running(1, config=internal_topics())
    kubernetes.start(1, went_back=True)
    kubernetes.settle()
    for name, map_name in MAP_NAMES.items():
        (state,) = states(kubernetes, name)
        assert state.leader is None
        told = warning(kubernetes)
        assert told is not None
        assert told.reason == "RecordsAtRisk"
        where = f"{name} (set annotations on PartitionMap {map_name}): partition 0"
        assert where in told.message

        accepted = {labels.UNCLEAN_ELECTION: f"0@{state.partition_epoch}"}
        observed = kubernetes.maps[name]
        meta = replace(observed.metadata, annotations=accepted)
        kubernetes.maps[name] = replace(observed, metadata=meta)
        kubernetes.settle()
        (state,) = states(kubernetes, name)
        assert str(state.leader) == "1@2"
    assert warning(kubernetes) is None
    assert [one.reason for one in kubernetes.announced] == ["UncleanElection"] * 2


def test_its_leaders_are_elected_handed_over_and_brought_back_as_any_others() -> None:
    kubernetes = running()
    kubernetes.kill(1)
    kubernetes.settle()
    assert all(str(state.leader) in {"2@1", "3@1"} for state in states(kubernetes))
    assert {len(state.isr) for state in states(kubernetes)} == {2}
    status = kubernetes.cluster.status
    assert (status.offline_partitions, status.under_replicated_partitions) == (0, 100)
    kubernetes.kill(2)
    kubernetes.settle()
    assert {len(state.isr) for state in states(kubernetes)} == {2}, "the floor is 2"
    assert {str(state.leader) for state in states(kubernetes)} == {"3@1"}

    draining = running()
    broker = draining.brokers[BrokerId(1)]
    draining.status(1, replace(broker.status, draining=True))
    draining.settle()
    assert all(str(state.leader) in {"2@1", "3@1"} for state in states(draining))
    assert all("1@1" not in map(str, state.isr) for state in states(draining))


def test_every_prefix_of_the_plan_that_makes_it_leads_to_the_same_end() -> None:
    start = kubernetes_of(3, config={"offsets.topic.num.partitions": 4})
    start.apply(topic(partitions=2))
    start.settle()
    for broker_id in start.brokers:
        start.start(broker_id)
    straight = deepcopy(start)
    rounds = straight.settle()
    wanted = [(state.replicas, state.leader) for state in states(straight)]
    for _ in range(rounds):
        actions = start.plan().actions
        for length in range(len(actions)):
            killed = deepcopy(start)
            killed.execute(actions[:length])
            killed.settle()
            assert [(state.replicas, state.leader) for state in states(killed)] == wanted
        start.execute(actions)
        start.obey()


@of_each
def test_a_damaged_replica_of_it_is_told_by_the_cluster(name: str) -> None:
    kubernetes = running(3)
    broker = kubernetes.brokers[BrokerId(1)]
    topic_id = spec_of(kubernetes, name).generations[0].topic_id
    damaged = DamagedPartition(topic_id=topic_id, partition=PartitionIndex(7), file="0.log")
    (directory,) = broker.status.directories
    directory = replace(directory, damaged=(damaged,))
    kubernetes.status(1, replace(broker.status, directories=(directory,)))
    kubernetes.settle()

    assert str(states(kubernetes, name)[7].leader) != "1@1"
    told = {one.type: one.message for one in kubernetes.cluster.status.conditions}
    assert told["ReplicasDamaged"] == (f"{name}: partition 7 on broker 1 is damaged in 0.log")
