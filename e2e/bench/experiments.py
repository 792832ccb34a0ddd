"""The experiments: how each line is measured.

An experiment makes two cells, one for each side, which then run alternately (`paired.py`). A cell
is a function that measures one broker once and takes a second or two. What shall not be measured
happens when the cells are made, or in a cell before its measurement begins.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from e2e.bench import lines, moves, three_brokers, tls, transactions
from e2e.bench.compaction import compaction
from e2e.bench.group_reader import read_in_group
from e2e.bench.groups import groups
from e2e.bench.java_load import BATCH_BYTES
from e2e.bench.lines import Line
from e2e.bench.paired import Cell, Numbers, Sides
from e2e.bench.rig import Rig, create_once, spent
from e2e.clients.topics import create_topic
from e2e.cluster.shell import run
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.kafka.process import BrokerProcess

PARTITIONS = 6
MANY_TOPICS, PARTITIONS_OF_EACH = 10, 100
POLLERS, POLL_WAIT_MS = 200, 500
START_LIMIT_S = 60
LATENCY_RATE = 2_000
GB = 1e9
MB = 1e6
MICROSECOND = 1e-6


Experiment = Callable[[Rig], Sides]


def on_both(cell: Callable[[Rig, BrokerProcess], Numbers]) -> Experiment:
    """An experiment that runs the same cell on the two brokers that run all the time."""
    return lambda rig: Sides(partial(cell, rig, rig.ours), partial(cell, rig, rig.kafka))


def produce(
    rig: Rig, broker: BrokerProcess, *, size: int, records: int, rate: Line, cpu: Line | None = None
) -> Numbers:
    """Produce `records` records of `size` bytes with Kafka's Java client.

    `rate` is the line for records a second, `cpu` one for the broker's CPU seconds per GB.
    """
    count = rig.effort.scaled(records)
    with rig.topic(broker, PARTITIONS) as topic, spent(broker) as cost:
        found = {rate: rig.java.produce(broker.bootstrap, topic, count, size)}
    if cpu:
        found[cpu] = cost.cpu_s / (count * size / GB)
    return found


def produce_by_librdkafka(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Produce records of 1 KB with librdkafka, in a process of its own that prints the rate."""
    count = rig.effort.scaled(400_000)
    program = (sys.executable, "-m", "e2e.bench.librdkafka_load")
    with rig.topic(broker, PARTITIONS) as topic:
        printed = run(*program, broker.bootstrap, topic, str(count), "1024")
    return {lines.LIBRDKAFKA_PRODUCE: float(printed)}


def produce_one_by_one(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Produce with one record in each request.

    The topic has one partition: with several, a request could carry a batch for each of them.
    """
    count = rig.effort.scaled(40_000)
    with rig.topic(broker, 1) as topic, spent(broker) as cost:
        per_s = rig.java.produce(broker.bootstrap, topic, count, 100, batch_bytes=0)
    return {lines.ONE_RECORD: per_s, lines.REQUEST_CPU: cost.cpu_s / count / MICROSECOND}


def consuming(rig: Rig, *, size: int, records: int, measure: Callable[..., Numbers]) -> Sides:
    """Both sides read the same topic in each cell; the first experiment that reads it fills it.

    `measure` is called with the rig, the broker, the topic and the number of its records.
    """

    def cell_for(broker: BrokerProcess) -> Cell:
        count, topic = rig.effort.scaled(records), f"filled-{size}"
        if create_once(broker, topic, PARTITIONS):
            rig.java.produce(broker.bootstrap, topic, count, size, BATCH_BYTES)
        return partial(measure, rig, broker, topic, count)

    return Sides(cell_for(rig.ours), cell_for(rig.kafka))


def consume_small(rig: Rig, broker: BrokerProcess, topic: str, records: int) -> Numbers:
    return {lines.CONSUME_100: rig.java.consume(broker.bootstrap, topic, PARTITIONS, records)}


def consume_large(rig: Rig, broker: BrokerProcess, topic: str, records: int) -> Numbers:
    with spent(broker) as cost:
        per_s = rig.java.consume(broker.bootstrap, topic, PARTITIONS, records)
    return {
        lines.CONSUME_1000: per_s,
        lines.CONSUME_CPU: cost.cpu_s / (records * 1000 / GB),
        lines.MEMORY: broker.usage().rss_bytes / MB,
    }


def consume_in_group(rig: Rig, broker: BrokerProcess, topic: str, records: int) -> Numbers:
    """Read in a new group, which has no committed offsets, so that it reads from the beginning."""
    group = f"readers-{next(rig.numbers)}"
    return {lines.GROUP_1000: read_in_group(broker.bootstrap, topic, group, records)}


def end_to_end(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Latency from producer to consumer, at `LATENCY_RATE` records of 1 KB a second."""
    seconds = 1 + rig.effort.scaled(4)  # the load program ignores the first second
    with rig.topic(broker, 1) as topic:
        waits = rig.java.latency(broker.bootstrap, topic, LATENCY_RATE, seconds, 1024)
    return {lines.END_TO_END_P50: waits.p50_ms, lines.END_TO_END_P99: waits.p99_ms}


def end_to_end_synced(rig: Rig, broker: BrokerProcess) -> Numbers:
    """`end_to_end` as the line for Fsync, which has only the p99."""
    return {lines.FSYNC_P99: end_to_end(rig, broker)[lines.END_TO_END_P99]}


def idle_pollers(rig: Rig) -> Sides:
    """Both sides serve consumers with fetch sessions on many partitions that never get a record."""

    def cell_for(broker: BrokerProcess) -> Cell:
        for topic in many_topics():
            create_topic(broker.bootstrap, topic, PARTITIONS_OF_EACH)
        return partial(wait_for_nothing, rig, broker)

    return Sides(cell_for(rig.ours), cell_for(rig.kafka))


def wait_for_nothing(rig: Rig, broker: BrokerProcess) -> Numbers:
    """CPU of the broker while every poller waits, gets an empty answer, and asks again.

    Raises `RuntimeError` where the pollers got less than half of the expected answers.
    """
    seconds = 1 + rig.effort.scaled(5)
    topics = [f"{topic}:{PARTITIONS_OF_EACH}" for topic in many_topics()]
    program = (sys.executable, "-m", "e2e.bench.idle_pollers")
    arguments = (LOOPBACK, str(broker.port), str(POLLERS), str(POLL_WAIT_MS), *topics)
    with subprocess.Popen(
        [*program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        if child.stdout.readline() != "waiting\n":
            raise RuntimeError(f"the idle pollers of {broker.title} did not start")
        began_s = time.monotonic()
        with spent(broker) as cost:
            time.sleep(seconds)
        measured_s = time.monotonic() - began_s
        # The pollers end when their input is closed, and print how many answers they got.
        answers = int(child.communicate()[0])
    expected = POLLERS * measured_s * 1000 / POLL_WAIT_MS
    if answers < expected / 2:
        raise RuntimeError(f"{broker.title} gave {answers} answers, expected about {expected:.0f}")
    return {lines.IDLE_POLLERS: cost.cpu_s / measured_s * 100}


def many_topics() -> list[str]:
    return [f"many-{number}" for number in range(MANY_TOPICS)]


def start_empty(new: Callable[[], BrokerProcess]) -> Numbers:
    """Start a broker without topics, which `new` makes."""
    broker = new()
    broker.prepare()  # formatting its storage is no part of starting
    try:
        return {lines.START_EMPTY: seconds_to_serve(broker, 0)}
    finally:
        broker.kill()


def start_with_many(rig: Rig) -> Sides:
    """Both sides start in each cell with 1,000 partitions, which are created once."""

    def cell_for(broker: BrokerProcess) -> Cell:
        rig.start(broker)
        for topic in many_topics():
            create_topic(broker.bootstrap, topic, PARTITIONS_OF_EACH)
        broker.stop()
        return partial(restart, broker)

    return Sides(cell_for(rig.new_ours()), cell_for(rig.new_kafka()))


def restart(broker: BrokerProcess) -> Numbers:
    """Measure the start of a broker that is stopped, and stop it again."""
    found = {lines.START_1000: seconds_to_serve(broker, MANY_TOPICS * PARTITIONS_OF_EACH)}
    broker.stop()
    return found


def seconds_to_serve(broker: BrokerProcess, partitions: int) -> float:
    """Seconds from the start of the process to the first Metadata answer with a leader of all
    `partitions` partitions."""
    started_s = time.monotonic()
    broker.launch()
    while time.monotonic() - started_s < START_LIMIT_S:
        try:
            answer = metadata(LOOPBACK, broker.port)
        except OSError:
            time.sleep(0.002)
            continue
        if answer.brokers and answer.led() == partitions:
            return time.monotonic() - started_s
    raise TimeoutError(
        f"{broker.title} did not serve in {START_LIMIT_S} s:\n{broker.output_tail()}"
    )


# The order matters. Experiments that measure starts come first, while no other broker runs. Those
# that leave topics or brokers behind come late, and clusters of three brokers last, since these
# take a share of the machine from then on.
EXPERIMENTS: dict[str, Experiment] = {
    "start": lambda rig: Sides(
        partial(start_empty, rig.new_ours), partial(start_empty, rig.new_kafka)
    ),
    "start-1000": start_with_many,
    "produce-100": on_both(
        partial(produce, size=100, records=1_500_000, rate=lines.JAVA_PRODUCE_100)
    ),
    "produce-1000": on_both(
        partial(
            produce,
            size=1000,
            records=300_000,
            rate=lines.JAVA_PRODUCE_1000,
            cpu=lines.PRODUCE_CPU,
        )
    ),
    "tls-produce": on_both(tls.produce),
    "librdkafka": on_both(produce_by_librdkafka),
    "one-record": on_both(produce_one_by_one),
    "consume-100": partial(consuming, size=100, records=5_000_000, measure=consume_small),
    "consume-1000": partial(consuming, size=1000, records=1_000_000, measure=consume_large),
    "tls-consume": partial(consuming, size=1000, records=1_000_000, measure=tls.consume),
    "group": partial(consuming, size=1000, records=1_000_000, measure=consume_in_group),
    "tls-readers": partial(consuming, size=1000, records=1_000_000, measure=tls.readers),
    "latency": on_both(end_to_end),
    "fsync": lambda rig: Sides(
        partial(produce, rig, rig.ours_fsync, size=1000, records=300_000, rate=lines.FSYNC_RATE),
        partial(produce, rig, rig.ours, size=1000, records=300_000, rate=lines.FSYNC_RATE),
    ),
    "fsync-latency": lambda rig: Sides(
        partial(end_to_end_synced, rig, rig.ours_fsync), partial(end_to_end_synced, rig, rig.kafka)
    ),
    "transactions-produce": on_both(transactions.produce),
    "transactions-copy": partial(
        consuming,
        size=transactions.RECORD_BYTES,
        records=transactions.RECORDS,
        measure=transactions.copy,
    ),
    "idle-pollers": idle_pollers,
    "groups": groups,
    "compaction": compaction,
    **three_brokers.EXPERIMENTS,
    **moves.EXPERIMENTS,
}
