"""What users are told of damaged replicas, and when it is over."""

from dataclasses import replace

from chiplog_core.ids import BrokerId, Offset, PartitionIndex, TopicId
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.model.conditions import Condition
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

FILE = "orders-1/00000000000000000000.log"


def running() -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=2, replicas=3))
    kubernetes.run()
    return kubernetes


def damage(
    kubernetes: Kubernetes, *partitions: int, broker_id: int = 2, refetching: bool = False
) -> None:
    topic_id = kubernetes.maps["orders"].spec.current
    assert topic_id is not None
    found = tuple(damaged(topic_id, one, refetching=refetching) for one in partitions)
    status = kubernetes.brokers[BrokerId(broker_id)].status
    directory = replace(status.directories[0], damaged=found)
    kubernetes.status(broker_id, replace(status, directories=(directory,)))


def damaged(topic_id: TopicId, partition: int, *, refetching: bool) -> DamagedPartition:
    return DamagedPartition(
        topic_id=topic_id,
        partition=PartitionIndex(partition),
        file=FILE,
        offset=Offset(42),
        message="the CRC is not 0x1",
        refetching=refetching,
    )


def told(kubernetes: Kubernetes) -> Condition | None:
    conditions = kubernetes.topics["orders"].status.conditions
    return next((one for one in conditions if one.type == "ReplicasDamaged"), None)


def events(kubernetes: Kubernetes) -> list[tuple[str, str]]:
    found = [(one.reason, one.message) for one in kubernetes.announced]
    kubernetes.announced.clear()
    return found


def test_damage_is_told_with_its_file_and_offset_until_it_is_gone() -> None:
    kubernetes = running()
    events(kubernetes)
    assert told(kubernetes) is None

    damage(kubernetes, 1)
    kubernetes.settle()

    where = f"partition 1 on broker 2 is damaged in {FILE} from offset 42 on"
    found = told(kubernetes)
    assert found is not None
    assert (found.reason, found.message) == ("Quarantined", where)
    assert events(kubernetes) == [("ReplicaDamaged", f"{where}: the CRC is not 0x1")]
    state = kubernetes.maps["orders"].spec.generations[0].partitions[1]
    assert {one.broker_id for one in state.isr} == {1, 3}

    damage(kubernetes, 1, refetching=True)
    kubernetes.settle()

    again = told(kubernetes)
    assert again is not None
    assert again.reason == "Refetching"
    assert again.message.endswith("it is being fetched again from the leader")
    assert again.last_transition_time == found.last_transition_time
    assert events(kubernetes) == []

    damage(kubernetes)
    kubernetes.settle()

    assert told(kubernetes) is None
    assert [reason for reason, _ in events(kubernetes)] == ["ReplicasRebuilt"]


def test_each_replica_is_told_of_once() -> None:
    kubernetes = running()
    damage(kubernetes, 1)
    kubernetes.settle()
    events(kubernetes)

    damage(kubernetes, 0, 1)
    kubernetes.settle()

    assert [message[:24] for _, message in events(kubernetes)] == ["partition 0 on broker 2 "]
    found = told(kubernetes)
    assert found is not None
    assert found.message.count("is damaged") == 2


def test_many_are_counted() -> None:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=20, replicas=3))
    kubernetes.run()
    damage(kubernetes, *range(20))
    kubernetes.settle()

    found = told(kubernetes)
    assert found is not None
    assert found.message.endswith("and 10 more")
