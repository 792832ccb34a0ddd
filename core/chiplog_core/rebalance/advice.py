"""How many partitions a topic should have, and why.

The rule. Enough that none takes more than `TARGET_BYTES_PER_SECOND` if they are even, and, where
the topic takes a noticeable part of what a broker takes, as many as there are brokers, so that
leaders can be even; rounded up to a multiple of the brokers. Not more than a hot key lets be even:
a key stays in one partition, so with a share of 1/n of the records more than n partitions only
make the others emptier. Never fewer than there are, for partitions cannot be taken away, and at
most `MAX_TIMES` as many.

A topic that grows puts keys into other partitions than before (see `spec.growth` of a Topic).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC
from chiplog_core.rebalance.measured import Measured

TARGET_BYTES_PER_SECOND = 5 * 2**20
"""Of one partition: a replica of it is caught up with in reasonable time."""
MAX_TIMES = 4
NOTICEABLE_PERCENT = 5
"""Of a broker's even share of all rates."""
HOT_PERCENT = 10
"""A key with this share of its partition's records is reported."""


class Reason(StrEnum):
    """Why this number."""

    ENOUGH = "Enough"
    RATE = "Rate"
    FEWER_THAN_BROKERS = "FewerThanBrokers"
    HOT_KEY = "HotKey"
    CAPPED = "Capped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Of one topic."""

    topic: str
    partitions: int
    advised_partitions: int
    reasons: tuple[Reason, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """What of a topic counts here."""

    topic: str
    partitions: int
    bytes_per_second: float
    hottest_share: float
    """Of the topic's records, of its most frequent key: 0 to 1."""


def topic_load(topic: str, measured: Mapping[int, Measured], partitions: int) -> TopicLoad:
    """The load of a topic, from its measured partitions. Samples are weighted by how many
    records they stand for."""
    records = sum(partition.records for partition in measured.values())
    hottest = max(
        (
            key.records / partition.sampled_records * partition.records / records
            for partition in measured.values()
            for key in partition.hot_keys
            if partition.sampled_records and records
        ),
        default=0.0,
    )
    return TopicLoad(
        topic=topic,
        partitions=partitions,
        bytes_per_second=sum(partition.bytes_per_second for partition in measured.values()),
        hottest_share=hottest,
    )


def advise(load: TopicLoad, brokers: int, all_bytes_per_second: float) -> Advice:
    """The recommended number of partitions, with the reasons."""
    reasons: list[Reason] = []
    wanted = load.partitions
    by_rate = ceil(load.bytes_per_second / TARGET_BYTES_PER_SECOND)
    if by_rate > wanted:
        wanted = by_rate
        reasons.append(Reason.RATE)
    share = all_bytes_per_second / brokers if brokers else 0.0
    is_noticeable = load.bytes_per_second * 100 > NOTICEABLE_PERCENT * share > 0
    if is_noticeable and wanted < brokers:
        wanted = brokers
        reasons.append(Reason.FEWER_THAN_BROKERS)
    if reasons and brokers:
        wanted = ceil(wanted / brokers) * brokers
    if load.hottest_share * load.partitions > 1:
        most = max(load.partitions, ceil(1 / load.hottest_share))
        wanted = min(wanted, most)
        reasons.append(Reason.HOT_KEY)
    most = min(max(MAX_TIMES * load.partitions, brokers), MAX_PARTITIONS_PER_TOPIC)
    if wanted > most:
        wanted = max(most, load.partitions)
        reasons.append(Reason.CAPPED)
    found = tuple(reasons) or (Reason.ENOUGH,)
    return Advice(
        topic=load.topic,
        partitions=load.partitions,
        advised_partitions=wanted,
        reasons=found,
        message="; ".join(_reason_text(reason, load, brokers) for reason in found),
    )


def worth_reporting(advices: Sequence[Advice]) -> tuple[Advice, ...]:
    """The advices that recommend a change, the largest change first."""
    reported = [advice for advice in advices if advice.reasons != (Reason.ENOUGH,)]
    return tuple(
        sorted(
            reported,
            key=lambda advice: (advice.partitions - advice.advised_partitions, advice.topic),
        )
    )


def _reason_text(reason: Reason, load: TopicLoad, brokers: int) -> str:
    """The reason as a sentence."""
    match reason:
        case Reason.RATE:
            return (
                f"{load.bytes_per_second:.0f} bytes/s are more than {TARGET_BYTES_PER_SECOND} for "
                f"each of {load.partitions} partitions"
            )
        case Reason.FEWER_THAN_BROKERS:
            return (
                f"{load.partitions} partitions are too few to have leaders on all {brokers} brokers"
            )
        case Reason.HOT_KEY:
            return (
                f"one key has {load.hottest_share:.0%} of the records and stays in one partition: "
                "more partitions do not spread it, only a finer-grained key does"
            )
        case Reason.CAPPED:
            return f"at most {MAX_TIMES} times as many partitions are recommended in one step"
        case Reason.ENOUGH:
            return "there are enough partitions"
