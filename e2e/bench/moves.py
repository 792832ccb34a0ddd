"""Experiments that move replicas between brokers of one machine, beside Apache Kafka.

A topic with one replica of each partition is filled once, with all partitions on one broker. Each
cell moves all of them to the next broker, and takes the time until the cluster lists no
reassignment any more: the new replicas are in the ISR, and the old ones are not replicas any more.
Both sides get the requests of kafka-reassign-partitions.sh from this process (`reassigning.py`), so
that no start of Java is measured. A cell ends when the old broker has deleted its copies: that is
not measured, and does not disturb the next cell.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from e2e.bench import lines
from e2e.bench.lines import Line
from e2e.bench.paired import FAILURES, Cell, NotMeasured, Numbers, Sides, first_line
from e2e.bench.reassigning import Reassigning, Refused, bytes_on
from e2e.bench.rig import Rig
from e2e.clients.topics import create_topic
from e2e.kafka.members import Members, ask, ask_all, wait_for

PARTITIONS: Final = 6
RECORDS: Final = 1_000_000
RECORD_BYTES: Final = 1_000
MB: Final = 1e6
POLL_S: Final = 0.02
LIMIT_S: Final = 300
ACCEPT_LIMIT_S: Final = 10

T = TypeVar("T")
Experiment = Callable[[Rig], Sides]


def moving(rig: Rig, *, durability: str, rate: Line) -> Sides:
    """Both sides move a topic of 1 GB, or less with a smaller effort.

    `durability` is that of our topic; `rate` is the line for the bytes that move in a second.
    """

    def cell_for(members: Members) -> Cell:
        topic = f"moving-{next(rig.numbers)}"
        measured(members, partial(fill, rig, members, topic, durability))
        return partial(measured, members, partial(move, members, topic, rate))

    return Sides(cell_for(rig.three_ours), cell_for(rig.three_kafka))


def measured(members: Members, work: Callable[[], T]) -> T:
    """What `work` returns. Raises `NotMeasured` where it fails: other experiments go on."""
    try:
        return work()
    except FAILURES as failed:
        why = first_line(failed)
        raise NotMeasured(f"{members.title} did not move the topic: {why}") from failed


def fill(rig: Rig, members: Members, topic: str, durability: str) -> None:
    """Create a topic with all its partitions on one broker, and fill it."""
    config = {"retention.ms": "-1", **members.durability(durability)}
    create_topic(members.bootstrap, topic, PARTITIONS, config)
    first, *_ = sorted(members.ports())
    seconds_to_move(members, topic, first)
    count = rig.effort.scaled(RECORDS)
    rig.java.produce(members.bootstrap, topic, count, RECORD_BYTES)


def move(members: Members, topic: str, rate: Line) -> Numbers:
    """Move the topic to the next broker; returns after the old one has deleted its copies.

    Raises `RuntimeError` where the new broker then has not as many bytes as the old one had.
    """
    ports = members.ports()
    (source,) = set(ask(members).leaders[topic].values())
    target = following(source, list(ports))
    size_bytes = bytes_on(ports[source], topic)
    seconds = seconds_to_move(members, topic, target)
    found_bytes = bytes_on(ports[target], topic)
    if not size_bytes or found_bytes != size_bytes:
        raise RuntimeError(f"{size_bytes} bytes of {topic} became {found_bytes}")
    wait_for(
        f"broker {source} has deleted {topic}", lambda: not bytes_on(ports[source], topic), LIMIT_S
    )
    return {rate: size_bytes / MB / seconds}


def seconds_to_move(members: Members, topic: str, broker_id: int) -> float:
    """Make a broker the only replica of all partitions; seconds from the order until it is done.

    Returns after every member knows that. Raises `TimeoutError`.
    """
    # The target copies, and the broker before it leads: ask another one.
    asked = members.ports()[following(broker_id, list(members.ports()))]
    with Reassigning(asked, topic, PARTITIONS) as reassigning:
        began_s = order(reassigning, broker_id)
        while not reassigning.is_done():
            if time.monotonic() - began_s > LIMIT_S:
                raise TimeoutError(f"{topic} did not move to broker {broker_id} in {LIMIT_S} s")
            time.sleep(POLL_S)
        seconds = time.monotonic() - began_s
    wait_for(
        f"all know that {topic} is on broker {broker_id}",
        lambda: all(set(one.in_sync[topic].values()) == {(broker_id,)} for one in ask_all(members)),
        LIMIT_S,
    )
    return seconds


def order(reassigning: Reassigning, broker_id: int) -> float:
    """Order that a broker becomes the only replica; returns the monotonic time of the order that
    was accepted.

    Chiplog refuses a broker that has deleted its last copy, but is not known to have done so yet.
    Raises `Refused` after `ACCEPT_LIMIT_S`.
    """
    deadline_s = time.monotonic() + ACCEPT_LIMIT_S
    while True:
        began_s = time.monotonic()
        try:
            reassigning.order(broker_id)
        except Refused:
            if began_s > deadline_s:
                raise
            time.sleep(POLL_S)
        else:
            return began_s


def following(broker_id: int, brokers: list[int]) -> int:
    """The broker after this one; after the last comes the first."""
    ordered = sorted(brokers)
    return ordered[(ordered.index(broker_id) + 1) % len(ordered)]


EXPERIMENTS: dict[str, Experiment] = {
    "moves": partial(moving, durability="PageCache", rate=lines.MOVES),
    "moves-fsync": partial(moving, durability="Fsync", rate=lines.MOVES_FSYNC),
}
