"""Experiments with three brokers on each side: three replicas, acks=all, min.insync.replicas=2.

Both sides are processes of this machine on loopback. Ours are brokers of a BrokerCluster, with
their operator and a Kubernetes API server beside them (`e2e.loopback`), which take their share of
the machine as Kafka's controllers do of theirs. While one side is measured, the other is idle.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from confluent_kafka import KafkaException

from e2e.bench import lines
from e2e.bench.lines import Line
from e2e.bench.paired import FEW, Cell, NotMeasured, Numbers, Sides
from e2e.bench.rig import Rig, delete_topic
from e2e.clients.failover import measure_failover
from e2e.clients.topics import create_topic
from e2e.kafka.members import Members, ask_all, leader_of, stopwatch, wait_whole

SIZE = 3
MIN_IN_SYNC = {"min.insync.replicas": "2"}
PARTITIONS = 6
MANY = 1_000

Experiment = Callable[[Rig], Sides]


def on_three(cell: Callable[[Rig, Members], Numbers]) -> Experiment:
    """An experiment that runs the same cell on both clusters."""
    return lambda rig: Sides(
        partial(cell, rig, rig.three_ours),
        partial(cell, rig, rig.three_kafka),
    )


def produce(
    rig: Rig, members: Members, *, size: int, records: int, durability: str, rate: Line
) -> Numbers:
    """Produce `records` records of `size` bytes into a new topic; `rate` is their line."""
    count = rig.effort.scaled(records)
    with replicated_topic(rig, members, PARTITIONS, durability) as topic:
        return {rate: rig.java.produce(members.bootstrap, topic, count, size)}


def failing_over(partitions: int, measure: Callable[[Members, str], Numbers]) -> Experiment:
    """An experiment whose cells kill a broker and start it again, with a topic that stays.

    `measure` is called with the cluster and the topic's name.
    """

    def cell_for(rig: Rig, members: Members) -> Cell:
        topic = f"failing-over-{partitions}"
        create(members, topic, partitions, "PageCache")
        return partial(measure, members, topic)

    return lambda rig: Sides(cell_for(rig, rig.three_ours), cell_for(rig, rig.three_kafka), FEW)


def first_record(members: Members, topic: str) -> Numbers:
    """Kill the leader of partition 0; seconds until the new leader acknowledges a record."""
    leader = leader_of(members, topic, 0)
    found = measure_failover(members.bootstrap, topic, 0, partial(members.kill, leader))
    assert not found.lost, f"{members.title} lost {len(found.lost)} acknowledged records"
    members.start_again(leader)
    wait_whole(members, SIZE, SIZE)
    return {lines.FIRST_RECORD: found.seconds}


def new_leaders(members: Members, topic: str) -> Numbers:
    """Kill the broker that leads most partitions; seconds until all partitions have a new leader.

    That is measured as the time until the Metadata of every other broker has only running leaders.
    """
    (first_answer, *_) = ask_all(members)
    ((leads_most, _),) = Counter(first_answer.leaders[topic].values()).most_common(1)

    def all_led() -> bool:
        answers = ask_all(members)
        return all(set(one.leaders[topic].values()) <= members.ports().keys() for one in answers)

    seconds = stopwatch(f"leaders of {topic}", partial(members.kill, leads_most), all_led)
    members.start_again(leads_most)
    wait_whole(members, SIZE, SIZE)
    return {lines.NEW_LEADERS: seconds}


@contextmanager
def replicated_topic(rig: Rig, members: Members, partitions: int, durability: str) -> Iterator[str]:
    """A new topic for one cell, deleted after it."""
    name = f"three-{next(rig.numbers)}"
    create(members, name, partitions, durability)
    try:
        yield name
    finally:
        delete_topic(members.bootstrap, name)


def create(members: Members, name: str, partitions: int, durability: str) -> None:
    """Create a topic and wait until all its replicas are in sync.

    Raises `NotMeasured` where the cluster refuses the topic.
    """
    config = {**MIN_IN_SYNC, **members.durability(durability)}
    try:
        create_topic(members.bootstrap, name, partitions, config, replicas=SIZE)
    except KafkaException as refused:
        raise NotMeasured(
            f"{members.title} refused the topic: {refused.args[0].str()}"
        ) from refused
    wait_whole(members, SIZE, SIZE)


EXPERIMENTS: dict[str, Experiment] = {
    "three-100": on_three(
        partial(produce, size=100, records=400_000, durability="PageCache", rate=lines.THREE_100)
    ),
    "three-1000": on_three(
        partial(produce, size=1000, records=100_000, durability="PageCache", rate=lines.THREE_1000)
    ),
    "three-100-fsync": on_three(
        partial(produce, size=100, records=400_000, durability="Fsync", rate=lines.THREE_100_FSYNC)
    ),
    "three-1000-fsync": on_three(
        partial(
            produce, size=1000, records=100_000, durability="Fsync", rate=lines.THREE_1000_FSYNC
        )
    ),
    "failover": failing_over(1, first_record),
    "failover-1000": failing_over(MANY, new_leaders),
}
