"""The lines of the bench's table: what is measured, in which unit, and the goal.

A goal is set either for the ratio of our number to Apache Kafka's or, where Kafka's number
does not matter, for our own number in the line's unit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from statistics import median


class Better(Enum):
    """Whether higher or lower numbers of a line are better."""

    HIGHER = "≥"
    LOWER = "≤"


class Of(Enum):
    """Which number a goal is set for."""

    RATIO = "ratio"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Goal:
    better: Better
    value: float
    of: Of = Of.RATIO

    def met_by(self, number: float) -> bool:
        return number >= self.value if self.better is Better.HIGHER else number <= self.value

    def reached(self, number: float) -> float:
        """How far `number` reaches the goal, to compare lines: 1 if just met, less if missed."""
        if self.better is Better.HIGHER:
            return number / self.value
        return self.value / number if number > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    unit: str
    goal: Goal
    experiment: str
    """The experiment (`experiments.EXPERIMENTS`) that measures it."""
    summary: Callable[[Iterable[float]], float] = median
    """Makes one number of those of a side's cells. It is `max` for what must never happen."""


def at_least(value: float) -> Goal:
    return Goal(Better.HIGHER, value)


def at_most(value: float) -> Goal:
    return Goal(Better.LOWER, value)


def ours_at_most(value: float) -> Goal:
    return Goal(Better.LOWER, value, Of.OURS)


JAVA_PRODUCE_100 = Line("Java produce, 100 B", "rec/s", at_least(1.2), "produce-100")
JAVA_PRODUCE_1000 = Line("Java produce, 1,000 B", "rec/s", at_least(1.3), "produce-1000")
TLS_PRODUCE = Line("Java produce, 1,000 B, TLS", "rec/s", at_least(1.0), "tls-produce")
LIBRDKAFKA_PRODUCE = Line("librdkafka produce, 1 KB", "rec/s", at_least(1.4), "librdkafka")
ONE_RECORD = Line("Java produce, one record a request", "rec/s", at_least(1.3), "one-record")
CONSUME_100 = Line("Java consume, 100 B", "rec/s", at_least(1.15), "consume-100")
CONSUME_1000 = Line("Java consume, 1,000 B", "rec/s", at_least(1.15), "consume-1000")
TLS_CONSUME = Line("Java consume, 1,000 B, TLS", "rec/s", at_least(0.8), "tls-consume")
GROUP_1000 = Line("Java ConsumerPerformance in a group, 1,000 B", "rec/s", at_least(1.15), "group")
PRODUCE_CPU = Line("Broker CPU, produce 1,000 B", "s/GB", at_most(0.5), "produce-1000")
TLS_PRODUCE_CPU = Line("Broker CPU, produce 1,000 B, TLS", "s/GB", at_most(1.0), "tls-produce")
CONSUME_CPU = Line("Broker CPU, consume 1,000 B", "s/GB", at_most(0.6), "consume-1000")
TLS_CONSUME_CPU = Line("Broker CPU, consume 1,000 B, TLS", "s/GB", at_most(1.0), "tls-consume")
REQUEST_CPU = Line("Broker CPU, one-record request", "µs", ours_at_most(20), "one-record")
MEMORY = Line("Resident memory after load", "MB", ours_at_most(100), "consume-1000")
TLS_READERS = Line(
    "Resident memory, 20 TLS readers that read nothing", "MiB", ours_at_most(256), "tls-readers"
)
START_EMPTY = Line("Start to first Metadata, empty", "s", ours_at_most(0.5), "start")
START_1000 = Line("Start to first Metadata, 1,000 partitions", "s", ours_at_most(2), "start-1000")
END_TO_END_P50 = Line("End to end, 2,000 x 1 KB/s, p50", "ms", at_most(0.8), "latency")
END_TO_END_P99 = Line("End to end, 2,000 x 1 KB/s, p99", "ms", at_most(0.8), "latency")
FSYNC_RATE = Line("Fsync against PageCache, Java produce 1,000 B", "rec/s", at_least(0.8), "fsync")
FSYNC_P99 = Line("End to end with Fsync, p99", "ms", ours_at_most(5), "fsync-latency")
TRANSACTIONS_PRODUCE = Line(
    "Java produce in transactions of 100, 1 KB", "rec/s", at_least(1.2), "transactions-produce"
)
TRANSACTIONS_COPY = Line(
    "Java consume-transform-produce, transactions of 100, 1 KB",
    "rec/s",
    at_least(1.2),
    "transactions-copy",
)
TRANSACTIONS_PRODUCE_CPU = Line(
    "Broker CPU, produce in transactions", "s/GB", at_most(1.0), "transactions-produce"
)
TRANSACTIONS_COPY_CPU = Line(
    "Broker CPU, consume-transform-produce", "s/GB", at_most(1.0), "transactions-copy"
)
TRANSACTIONS_PRODUCE_HANGING = Line(
    "Hanging transactions after produce", "left", ours_at_most(0), "transactions-produce", max
)
TRANSACTIONS_COPY_HANGING = Line(
    "Hanging transactions after consume-transform-produce",
    "left",
    ours_at_most(0),
    "transactions-copy",
    max,
)
IDLE_POLLERS = Line(
    "200 idle long-pollers x 1,000 partitions", "% of a core", ours_at_most(10), "idle-pollers"
)
GROUPS_JOINED = Line(
    "1,000 groups of 2 members, until all have joined", "s", ours_at_most(30), "groups"
)
GROUPS_CPU = Line(
    "Broker CPU, heartbeats of 1,000 groups of 2", "% of a core", ours_at_most(50), "groups"
)
# Kafka syncs nothing before it acknowledges, in these lines too: that is its default.
THREE_100 = Line("Three brokers, acks=all, 100 B, PageCache", "rec/s", at_least(1.3), "three-100")
THREE_1000 = Line(
    "Three brokers, acks=all, 1,000 B, PageCache", "rec/s", at_least(1.3), "three-1000"
)
THREE_100_FSYNC = Line(
    "Three brokers, acks=all, 100 B, Fsync", "rec/s", at_least(0.9), "three-100-fsync"
)
THREE_1000_FSYNC = Line(
    "Three brokers, acks=all, 1,000 B, Fsync", "rec/s", at_least(0.9), "three-1000-fsync"
)
FIRST_RECORD = Line(
    "kill -9 of a leader to the first record, p50", "s", ours_at_most(1), "failover"
)
NEW_LEADERS = Line(
    "kill -9 to leaders of all 1,000 partitions, p50", "s", ours_at_most(2), "failover-1000"
)

# As above, Kafka does not sync what a new replica has fetched before it counts as in sync.
MOVES = Line("1 GB of replicas moved to another broker, PageCache", "MB/s", at_least(1.5), "moves")
MOVES_FSYNC = Line(
    "1 GB of replicas moved to another broker, Fsync", "MB/s", at_least(1.5), "moves-fsync"
)

COMPACTION = Line("Compaction of 100 B records, 100,000 keys", "MB/s", at_least(0.3), "compaction")
COMPACTION_CPU = Line("Broker CPU, compaction of 100 B records", "s/GB", at_most(3), "compaction")
COMPACTION_MEMORY = Line("Resident memory after compaction", "MB", ours_at_most(200), "compaction")

LINES = (
    JAVA_PRODUCE_100,
    JAVA_PRODUCE_1000,
    TLS_PRODUCE,
    LIBRDKAFKA_PRODUCE,
    ONE_RECORD,
    CONSUME_100,
    CONSUME_1000,
    TLS_CONSUME,
    GROUP_1000,
    PRODUCE_CPU,
    TLS_PRODUCE_CPU,
    CONSUME_CPU,
    TLS_CONSUME_CPU,
    REQUEST_CPU,
    MEMORY,
    TLS_READERS,
    START_EMPTY,
    START_1000,
    END_TO_END_P50,
    END_TO_END_P99,
    FSYNC_RATE,
    FSYNC_P99,
    TRANSACTIONS_PRODUCE,
    TRANSACTIONS_COPY,
    TRANSACTIONS_PRODUCE_CPU,
    TRANSACTIONS_COPY_CPU,
    TRANSACTIONS_PRODUCE_HANGING,
    TRANSACTIONS_COPY_HANGING,
    IDLE_POLLERS,
    GROUPS_JOINED,
    GROUPS_CPU,
    THREE_100,
    THREE_1000,
    THREE_100_FSYNC,
    THREE_1000_FSYNC,
    FIRST_RECORD,
    NEW_LEADERS,
    MOVES,
    MOVES_FSYNC,
    COMPACTION,
    COMPACTION_CPU,
    COMPACTION_MEMORY,
)
