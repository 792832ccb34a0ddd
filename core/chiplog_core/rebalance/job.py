"""The request to the Spark job that measures: the fields under `job`.

The operator writes the request and the job parses it, both by this declaration. It does not contain
leaders and replicas: the job asks the brokers for them when it measures, so that the proposal names
the state for which it was made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from chiplog_core.ids import MAX_INT64, BrokerId, PartitionIndex
from chiplog_core.limits import MAX_BROKERS
from chiplog_core.manifest.constraints import Entries, Items, Length, Range
from chiplog_core.model.references import TopicName
from chiplog_core.observed.pinned import Pinned
from chiplog_core.rebalance.capacity import UNLIMITED, Capacity
from chiplog_core.rebalance.measured import Broker
from chiplog_core.rebalance.settings import Mode, Settings, read_settings

WINDOW_MS = 3_600_000
SAMPLE_RECORDS = 1_000_000
MAX_TOPICS = 10_000
MAX_PINNED = 100_000

Ids = Annotated[tuple[BrokerId, ...], Items(MAX_BROKERS, unique=True)]
Rack = Annotated[str, Length(1_024)]
Node = Annotated[str, Length(253)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPartitions:
    """Consecutive partitions of a topic that stay as they are."""

    topic: TopicName
    first: PartitionIndex
    last: PartitionIndex


def pinned_runs(pinned: Pinned) -> tuple[PinnedPartitions, ...]:
    """The pinned partitions as the request has them: in order, neighbours together."""
    runs: list[PinnedPartitions] = []
    for topic, partitions in sorted(pinned.items()):
        for number in sorted(partitions):
            before = runs[-1] if runs else None
            if before is not None and (before.topic, before.last + 1) == (topic, number):
                runs[-1] = replace(before, last=number)
            else:
                runs.append(PinnedPartitions(topic=topic, first=number, last=number))
    return tuple(runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceJob:
    """What the job measures, and the settings of the proposal."""

    topics: Annotated[
        tuple[TopicName, ...],
        "Names of the topics to be measured: those of users.",
        Items(MAX_TOPICS, unique=True),
    ] = ()
    brokers: Annotated[Ids, "Ids of the brokers that may lead and hold replicas."] = ()
    racks: Annotated[
        Mapping[str, Rack],
        "Broker id -> rack, also of brokers that may not lead.",
        Entries(MAX_BROKERS),
    ] = field(default_factory=dict)
    nodes: Annotated[
        Mapping[str, Node],
        "Broker id -> node on which it runs.",
        Entries(MAX_BROKERS),
    ] = field(default_factory=dict)
    capacities: Annotated[
        Mapping[str, Capacity],
        "Broker id -> what the broker may hold.",
        Entries(MAX_BROKERS),
    ] = field(default_factory=dict)
    mode: Annotated[str, "Between which brokers load moves.", Length(50)] = Mode.FULL.value
    named_brokers: Annotated[Ids, "Ids of the brokers that are added or removed."] = ()
    goals: Annotated[
        tuple[Annotated[str, Length(200)], ...], "Goals of the proposal.", Items(30)
    ] = ()
    excluded_topics: Annotated[
        str | None, "A regular expression of topics that stay as they are.", Length(500)
    ] = None
    pinned_partitions: Annotated[
        tuple[PinnedPartitions, ...],
        "Partitions that stay as they are, because their Topics place them.",
        Items(MAX_PINNED),
    ] = ()
    bytes_per_second: Annotated[
        int | None, "Read rate limit of all executors together.", Range(1, MAX_INT64)
    ] = None
    time_limit_ms: Annotated[int | None, "How long measuring may take.", Range(1, MAX_INT64)] = None
    window_ms: Annotated[
        int,
        "Rates are calculated from the records of this long before measuring.",
        Range(1_000, MAX_INT64),
    ] = WINDOW_MS
    sample_records: Annotated[
        int, "How many of the newest offsets of each partition are read.", Range(1, MAX_INT64)
    ] = SAMPLE_RECORDS

    def settings(self) -> Settings:
        """The settings of the rebalance. Raises `RebalanceRefused` if they are not valid."""
        settings = read_settings(
            mode=self.mode,
            brokers=self.named_brokers,
            excluded_topics=self.excluded_topics,
            goals=self.goals,
        )
        pinned: dict[str, set[PartitionIndex]] = {}
        for run in self.pinned_partitions:
            numbers = map(PartitionIndex, range(run.first, run.last + 1))
            pinned.setdefault(run.topic, set()).update(numbers)
        return replace(
            settings, pinned={topic: frozenset(found) for topic, found in pinned.items()}
        )

    def all_brokers(self) -> tuple[Broker, ...]:
        """All brokers that the request names. Only those in `brokers` are usable."""
        named_ids = {
            *self.brokers,
            *self.named_brokers,
            *(
                BrokerId(int(broker_id))
                for broker_id in (*self.racks, *self.nodes, *self.capacities)
            ),
        }
        return tuple(
            Broker(
                broker_id=broker_id,
                rack=self.racks.get(str(broker_id)),
                node=self.nodes.get(str(broker_id)),
                is_usable=broker_id in set(self.brokers),
                capacity=self.capacities.get(str(broker_id), UNLIMITED),
            )
            for broker_id in sorted(named_ids)
        )
