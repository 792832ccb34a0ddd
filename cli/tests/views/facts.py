"""Facts that several tests begin with."""

from chiplog_cli.facts import Broker, Cluster, Group, Member, Partition, Topic, TopicPartition

ONE = Broker(id=1, host="b1", port=9092, rack="a")
TWO = Broker(id=2, host="b2", port=9092)
CLUSTER = Cluster(cluster_id="c-1", brokers=(ONE, TWO))

ORDERS = Topic(
    name="orders",
    topic_id="QJFFJ4qkSO6S0Ro_r2DSTg",
    is_internal=False,
    partitions=(
        Partition(partition=0, leader=1, replicas=(1, 2), isr=(1, 2)),
        Partition(partition=1, leader=None, replicas=(2, 1), isr=(2,)),
    ),
)
SMALL = Topic(
    name="small",
    topic_id="CFj7LOhUSq-rErA_3KyLAg",
    is_internal=False,
    partitions=(Partition(partition=0, leader=2, replicas=(2,), isr=(2,)),),
)


def at(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def member(name: str, *partitions: TopicPartition, instance: str | None = None) -> Member:
    return Member(
        member_id=f"{name}-id",
        client_id=name,
        host="/10.0.0.1",
        group_instance_id=instance,
        partitions=partitions,
    )


def group(*members: Member, state: str = "Stable", name: str = "billing") -> Group:
    return Group(
        group_id=name,
        state=state,
        assignor="range" if members else "",
        coordinator=ONE,
        members=members,
    )
