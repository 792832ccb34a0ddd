"""Recommends how many partitions a topic should have, and says why.

The rule:
- With evenly filled partitions, each gets at most `TARGET_BYTES_PER_SECOND`.
- A topic with a noticeable part of a broker's load has at least one partition per broker, so that
  all brokers can lead equally.
- A number that is raised for one of these reasons is rounded up to a multiple of the brokers.
- A hot key limits the number: a key stays in one partition, so if it has 1/n of the records, more
  than n partitions only make the others emptier.
- The number is never lower than now, because partitions cannot be removed, and at most `MAX_TIMES`
  times as high.

A topic that grows puts keys into other partitions than before (see `spec.growth` of a Topic).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC
from chiplog_core.rebalance.measured import Measured

TARGET_BYTES_PER_SECOND = 5 * 2**20
"""Target for one partition: with this rate, a new replica catches up in reasonable time."""
MAX_TIMES = 4
"""At most this many times the present number of partitions is recommended."""
NOTICEABLE_PERCENT = 5
"""From this percentage of a broker's even share of the cluster's rate, a topic should have leaders
on all brokers."""
HOT_PERCENT = 10
"""A key with this share of its partition's records is reported."""


class Reason(StrEnum):
    """Why this number of partitions is recommended."""

    ENOUGH = "Enough"
    RATE = "Rate"
    FEWER_THAN_BROKERS = "FewerThanBrokers"
    HOT_KEY = "HotKey"
    CAPPED = "Capped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The recommended number of partitions for one topic."""

    topic: str
    partitions: int
    advised_partitions: int
    reasons: tuple[Reason, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """The figures of a topic from which the number of partitions is recommended."""

    topic: str
    partitions: int
    bytes_per_second: float
    hottest_share: float
    """Share of the topic's records that have its most frequent key, from 0 to 1."""


def topic_load(topic: str, measured: Mapping[int, Measured], partitions: int) -> TopicLoad:
    """The load of a topic with this many `partitions`, from those that were measured.

    Keys are counted in a sample of each partition's records: a count is scaled from the sample to
    the partition, and is then divided by the records of the topic.
    """
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
    """The recommended number of partitions, with the reasons. `brokers` is the number of usable
    brokers, `all_bytes_per_second` the rate of all topics."""
    reasons: list[Reason] = []
    wanted = load.partitions
    by_rate = ceil(load.bytes_per_second / TARGET_BYTES_PER_SECOND)
    if by_rate > wanted:
        wanted = by_rate
        reasons.append(Reason.RATE)
    even_share = all_bytes_per_second / brokers if brokers else 0.0
    is_noticeable = load.bytes_per_second * 100 > NOTICEABLE_PERCENT * even_share > 0
    if is_noticeable and wanted < brokers:
        wanted = brokers
        reasons.append(Reason.FEWER_THAN_BROKERS)
    if reasons and brokers:
        wanted = ceil(wanted / brokers) * brokers
    # The hottest key has more records than one of evenly filled partitions would have.
    if load.hottest_share * load.partitions > 1:
        useful_partitions = max(load.partitions, ceil(1 / load.hottest_share))
        wanted = min(wanted, useful_partitions)
        reasons.append(Reason.HOT_KEY)
    max_partitions = min(max(MAX_TIMES * load.partitions, brokers), MAX_PARTITIONS_PER_TOPIC)
    if wanted > max_partitions:
        wanted = max(max_partitions, load.partitions)
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
    """The advices that have something to report, the largest increase first."""
    reported = [advice for advice in advices if advice.reasons != (Reason.ENOUGH,)]
    return tuple(
        sorted(
            reported,
            key=lambda advice: (advice.partitions - advice.advised_partitions, advice.topic),
        )
    )


def _reason_text(reason: Reason, load: TopicLoad, brokers: int) -> str:
    """The reason as part of the advice's message."""
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
