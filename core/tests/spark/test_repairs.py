"""Which replicas are fetched anew, and when not: from the proof and the cluster alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    StorageUuid,
    TopicId,
)
from chiplog_core.limits import MAX_REFETCHES
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec, RefetchOrder
from chiplog_core.model.broker_status import (
    DamagedPartition,
    DataDirectory,
    RefetchAnswer,
    Tail,
)
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import (
    Generation,
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
)
from chiplog_core.model.spark_result import Check
from chiplog_core.model.verification import RepairState, ReplicaRepair
from chiplog_core.spark.repair_fleet import MAX_AT_ONCE, ClusterState
from chiplog_core.spark.repairs import (
    MAX_FINDING_AGE,
    Repairs,
    after_run,
    damaged_in,
    ended_orders,
    next_repairs,
    repairs_asked_by,
)
from chiplog_core.spark.verification_report import Finding, ReportedDamage

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ORDERS, OTHER = TopicId(bytes(15) + b"\x02"), TopicId(bytes(15) + b"\x03")
ABOUT = Metadata(name="x", namespace="apps", uid="u")
RUN = "nightly-1"


def damage_of(replica: int | None, partition: int = 0, check: Check = Check.CRC) -> ReportedDamage:
    return ReportedDamage(
        topic="orders",
        topic_id=ORDERS,
        partition=PartitionIndex(partition),
        replica=None if replica is None else BrokerId(replica),
        checks=(check,),
    )


def found(*of: ReportedDamage, is_complete: bool = True) -> Finding:
    return Finding(
        reason="ViolationsFound",
        message="",
        reported_damage=of,
        reported_total=len(of),
        is_complete=is_complete,
    )


def repairs(*of: ReportedDamage) -> tuple[ReplicaRepair, ...]:
    return repairs_asked_by(RUN, found(*of), NOW)


@dataclass
class Cluster:
    """Three brokers, and whoever follows their orders."""

    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    partitions: dict[int, PartitionState] = field(default_factory=dict)
    min_isr: int = 2
    topic_id: TopicId = ORDERS
    why_no_orders: str = ""
    damaged_elsewhere: frozenset[Any] = frozenset()

    def cluster_state(self) -> ClusterState:
        generation = Generation(topic_id=self.topic_id, partitions=tuple(self.partitions.values()))
        spec = PartitionMapSpec(
            cluster="demo",
            topic_name="orders",
            current=self.topic_id,
            min_isr=self.min_isr,
            durability=Durability.FSYNC,
            generations=(generation,),
        )
        return ClusterState(
            brokers=self.brokers,
            maps={"orders": PartitionMap(metadata=ABOUT, spec=spec)},
            damaged_elsewhere=self.damaged_elsewhere,
            why_no_orders=self.why_no_orders,
        )

    def look(
        self, known: Iterable[ReplicaRepair], seconds: int = 0, *, is_wanted: bool = True
    ) -> Repairs:
        now = NOW + timedelta(seconds=seconds)
        return next_repairs(tuple(known), self.cluster_state(), now, is_wanted=is_wanted)

    def spec(self, broker_id: int, **changes: Any) -> None:
        broker = self.brokers[BrokerId(broker_id)]
        self.brokers[BrokerId(broker_id)] = replace(broker, spec=replace(broker.spec, **changes))

    def status(self, broker_id: int, **changes: Any) -> None:
        broker = self.brokers[BrokerId(broker_id)]
        status = replace(broker.status, **changes)
        self.brokers[BrokerId(broker_id)] = replace(broker, status=status)

    def state(self, partition: int = 0, **changes: Any) -> None:
        self.partitions[partition] = replace(self.partitions[partition], **changes)

    def carry_out(self, found: Repairs) -> None:
        for one in found.orders:
            before = self.brokers[one.replica].spec.refetches
            self.spec(one.replica, refetches=(*before, one.order))

    def answer(self, broker_id: int, refusal: str = "") -> None:
        (order,) = self.brokers[BrokerId(broker_id)].spec.refetches
        answer = RefetchAnswer(
            run=order.run, topic_id=order.topic_id, partition=order.partition, refusal=refusal
        )
        self.status(broker_id, refetches=(answer,))

    def damaged(self, broker_id: int, *partitions: int) -> None:
        damage = tuple(
            DamagedPartition(topic_id=ORDERS, partition=PartitionIndex(one), file="f")
            for one in partitions
        )
        directory = DataDirectory(
            storage_uuid=StorageUuid(bytes(15) + b"\x07"),
            tail=Tail.INTACT,
            intact_since=Session(1),
            damaged=damage,
        )
        self.status(broker_id, directories=(directory,))


def refs(*broker_ids: int) -> tuple[ReplicaRef, ...]:
    return tuple(ReplicaRef(BrokerId(one), Session(5)) for one in broker_ids)


@pytest.fixture
def cluster() -> Cluster:
    return three_brokers()


def three_brokers() -> Cluster:
    """Four partitions, all replicas in sync, all led by broker 1."""
    made = Cluster()
    for broker_id in map(BrokerId, (1, 2, 3)):
        spec = BrokerSpec(
            cluster="demo",
            cluster_id="id",
            broker_id=broker_id,
            session=Session(5),
            intent=BrokerIntent.SERVE,
        )
        made.brokers[broker_id] = Broker(metadata=ABOUT, spec=spec)
    for partition in range(4):
        made.partitions[partition] = PartitionState(
            partition=PartitionIndex(partition),
            replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
            isr=refs(1, 2, 3),
            leader=refs(1)[0],
            leader_epoch=LeaderEpoch(1),
            partition_epoch=PartitionEpoch(1),
        )
    return made


def states(of: Iterable[ReplicaRepair]) -> list[RepairState]:
    return [one.state for one in of]


def test_a_replica_is_ordered_fetched_and_done_once(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    (order,) = first.orders
    assert order.replica == 3
    assert order.order == RefetchOrder(
        run=RUN, topic_id=ORDERS, partition=PartitionIndex(0), session=Session(5)
    )
    assert states(first.repairs) == [RepairState.WAITING]

    cluster.carry_out(first)
    seen = cluster.look(first.repairs)
    assert (states(seen.repairs), seen.orders) == ([RepairState.ORDERED], ())
    assert [one.reason for one in seen.events] == ["RefetchOrdered"]

    cluster.damaged(3, 0)
    cluster.answer(3)
    fetching = cluster.look(seen.repairs)
    assert states(fetching.repairs) == [RepairState.FETCHING]
    assert list(ended_orders(cluster.brokers.values(), fetching.repairs)) == []

    cluster.damaged(3)
    cluster.state(isr=refs(1, 2))
    assert states(cluster.look(fetching.repairs).repairs) == [RepairState.FETCHING]
    cluster.state(isr=refs(1, 2, 3))
    done = cluster.look(fetching.repairs, 60)
    assert states(done.repairs) == [RepairState.DONE]
    assert [(one.reason, one.is_warning) for one in done.events] == [("ReplicaRepaired", False)]
    ((broker, kept),) = ended_orders(cluster.brokers.values(), done.repairs)
    assert (broker.spec.broker_id, kept) == (3, ())

    cluster.spec(3, refetches=())
    again = cluster.look(done.repairs, 120)
    assert (again.repairs, again.orders, again.events) == (done.repairs, (), ())


def test_an_operator_that_dies_after_the_order_does_not_give_another(cluster: Cluster) -> None:
    """Its status was not written; the order was."""
    known = repairs(damage_of(3))
    cluster.carry_out(cluster.look(known))
    taken_over = cluster.look(known)
    assert (states(taken_over.repairs), taken_over.orders) == ([RepairState.ORDERED], ())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it.state(isr=refs(1, 3)), "1 other replicas"),
        (lambda it: it.state(isr=(*refs(1, 3), ReplicaRef(BrokerId(2), Session(4)))), "1 other"),
        (lambda it: it.spec(2, fenced=True), "1 other replicas"),
        (lambda it: it.state(isr=refs(1, 2)), "not in sync"),
        (lambda it: it.spec(3, fenced=True), "not in sync"),
        (lambda it: it.state(leader=None), "has no leader"),
        (lambda it: it.state(reports_wanted=True), "has no leader"),
        (lambda it: it.state(removing=(BrokerId(3),)), "moved"),
        (lambda it: it.damaged(2, 0), "another replica"),
        (lambda it: setattr(it, "why_no_orders", "paused"), "paused"),
        (lambda it: setattr(it, "damaged_elsewhere", damaged_in(repairs(damage_of(2)))), "1 other"),
    ],
)
def test_nothing_is_ordered_while_something_could_be_lost(
    cluster: Cluster, change: Any, why: str
) -> None:
    change(cluster)
    held = cluster.look(repairs(damage_of(3)))
    assert held.orders == ()
    assert states(held.repairs) == [RepairState.WAITING]
    assert why in held.repairs[0].message
    late = cluster.look(held.repairs, int(MAX_FINDING_AGE.total_seconds()) + 1)
    assert states(late.repairs) == [RepairState.REFUSED]
    assert "within an hour" in late.repairs[0].message


def test_the_leader_is_ordered_where_all_who_may_follow_it_are_whole(cluster: Cluster) -> None:
    """It resigns before anything is put aside: that is its broker's part."""
    (order,) = cluster.look(repairs(damage_of(1))).orders
    assert order.replica == 1


def test_nothing_is_fetched_from_a_leader_that_is_accused(cluster: Cluster) -> None:
    cluster.min_isr = 1
    held = cluster.look(repairs(damage_of(1), damage_of(2)))
    assert held.orders == ()
    assert {one.message for one in held.repairs} == {
        "the replica would be fetched from broker 2, whose replica may be damaged too",
        "the replica would be fetched from broker 1, whose replica may be damaged too",
    }


def test_of_a_partition_one_at_a_time(cluster: Cluster) -> None:
    cluster.min_isr = 1
    known = repairs(damage_of(2), damage_of(3))
    first = cluster.look(known)
    assert [one.replica for one in first.orders] == [2]
    cluster.carry_out(first)
    assert cluster.look(first.repairs).orders == ()


def test_of_a_cluster_few_at_a_time(cluster: Cluster) -> None:
    known = repairs(*(damage_of(3, partition) for partition in range(4)))
    first = cluster.look(known)
    assert len(first.orders) == MAX_AT_ONCE
    cluster.carry_out(first)
    assert cluster.look(first.repairs).orders == ()


def test_by_comparison_alone_it_takes_two_to_accuse_one(cluster: Cluster) -> None:
    cluster.min_isr = 1
    cluster.state(replicas=(BrokerId(1), BrokerId(3)), isr=refs(1, 3))
    differs = repairs(damage_of(3, check=Check.REPLICA_MISMATCH))
    assert cluster.look(differs).orders == ()
    assert len(cluster.look(repairs(damage_of(3, check=Check.CRC))).orders) == 1


def test_a_run_that_did_not_read_everything_proves_nothing() -> None:
    assert repairs_asked_by(RUN, found(damage_of(3), is_complete=False), NOW) == ()


def test_where_nobody_knows_which_copy_is_right_none_is_replaced(cluster: Cluster) -> None:
    known = repairs(damage_of(None), damage_of(3), damage_of(3, partition=1))
    assert states(known) == [RepairState.REFUSED, RepairState.WAITING]
    assert [one.order.partition for one in cluster.look(known).orders] == [1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: setattr(it, "topic_id", OTHER), "does not exist any more"),
        (lambda it: it.state(replicas=(BrokerId(1), BrokerId(2))), "holds no replica"),
        (lambda it: it.damaged(3, 0), "found the damage itself"),
    ],
)
def test_what_is_not_as_it_was_is_left(cluster: Cluster, change: Any, why: str) -> None:
    change(cluster)
    found = cluster.look(repairs(damage_of(3)))
    assert (states(found.repairs), found.orders) == ([RepairState.REFUSED], ())
    assert why in found.repairs[0].message


def test_a_policy_that_is_taken_back_counts_until_the_order(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    assert states(cluster.look(first.repairs, is_wanted=False).repairs) == [RepairState.REFUSED]
    cluster.carry_out(first)
    assert states(cluster.look(first.repairs, is_wanted=False).repairs) == [RepairState.ORDERED]


def test_what_a_broker_refuses_is_told(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    cluster.carry_out(first)
    cluster.answer(3, "1 other replicas are in sync, and 2 must be")
    refused = cluster.look(first.repairs)
    assert states(refused.repairs) == [RepairState.REFUSED]
    assert [(one.reason, one.is_warning) for one in refused.events] == [("RefetchRefused", True)]


def test_a_broker_that_was_started_anew_is_not_ordered_again(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    cluster.carry_out(first)
    cluster.spec(3, session=Session(6))
    assert states(cluster.look(first.repairs).repairs) == [RepairState.REFUSED]
    cluster.damaged(3, 0)
    assert states(cluster.look(first.repairs).repairs) == [RepairState.FETCHING]


def test_an_order_that_vanished_is_not_given_again(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    cluster.carry_out(first)
    ordered = cluster.look(first.repairs)
    cluster.spec(3, refetches=())
    lost = cluster.look(ordered.repairs)
    assert (states(lost.repairs), lost.orders) == ([RepairState.REFUSED], ())


def test_orders_of_a_verification_that_is_gone_are_withdrawn(cluster: Cluster) -> None:
    cluster.carry_out(cluster.look(repairs(damage_of(3))))
    ((broker, kept),) = ended_orders(cluster.brokers.values(), ())
    assert (broker.spec.broker_id, kept) == (3, ())


def test_a_later_run_leaves_what_is_under_way(cluster: Cluster) -> None:
    first = cluster.look(repairs(damage_of(3)))
    cluster.carry_out(first)
    ordered = cluster.look(first.repairs).repairs
    proven = repairs_asked_by("nightly-2", found(damage_of(3), damage_of(2, partition=1)), NOW)
    after = after_run(ordered, proven)
    assert [(one.run, one.replica) for one in after] == [(RUN, 3), ("nightly-2", 2)]


def test_partitions_are_kept_whole_where_there_are_too_many() -> None:
    """Who else is accused has to be known."""
    known = repairs(
        *(damage_of(replica, partition) for partition in range(60) for replica in (2, 3))
    )
    kept = after_run((), known)
    assert len(kept) <= MAX_REFETCHES
    assert len({one.partition for one in kept}) * 2 == len(kept)


@given(st.data())
def test_whatever_happens_enough_stay(data: st.DataObject) -> None:
    """No run of orders leaves a partition with fewer sound replicas in sync than min ISR."""
    made = three_brokers()
    made.min_isr = data.draw(st.integers(1, 3))
    pairs = st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 3))
    bad = data.draw(st.sets(pairs, max_size=6))
    for partition in range(4):
        isr = sorted(data.draw(st.sets(st.sampled_from([1, 2, 3]), min_size=1)))
        leader = data.draw(st.sampled_from([None, *isr]))
        made.state(partition, isr=refs(*isr), leader=None if leader is None else refs(leader)[0])
    known = repairs(*(damage_of(replica, partition) for replica, partition in sorted(bad)))
    ordered = made.look(known).orders
    assert len(ordered) <= MAX_AT_ONCE
    assert len({one.order.partition for one in ordered}) == len(ordered)
    for one in ordered:
        partition = int(one.order.partition)
        assert (one.replica, partition) in bad
        listed = {ref.broker_id for ref in made.partitions[partition].isr}
        sound = {each for each in listed if (each, partition) not in bad}
        assert len(sound - {one.replica}) >= made.min_isr
