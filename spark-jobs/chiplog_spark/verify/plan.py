"""Reads the state of the cluster before the verification, and again after it.

It only sends requests. The log start offsets of replicas are requested before the leader's, so that
records deleted in between are no missing segments; clean offsets are requested before end offsets.
Last stable offsets do not go back, so one that is requested before the end offset is not above the
one of the batches below the end offset, and one that is requested later is not below it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chiplog_core.config import topic_keys
from chiplog_core.ids import TopicId
from chiplog_spark.source.ranges import Range
from chiplog_spark.source.splits import Split, splits_of
from chiplog_spark.verify.epochs import history_of, next_epoch_to_request
from chiplog_spark.verify.facts import UNKNOWN, EpochHistory, PartitionFacts, ReplicaFacts
from chiplog_spark.verify.judge import After, Place
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import CLEAN_POINT, EARLIEST, LATEST, Isolation, TopicFacts

COMPACT: Final = "compact"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic and its partitions when the read was planned."""

    topic: TopicFacts
    partitions: tuple[PartitionFacts, ...]


def planned_topic(client: Client, name: str, now_ms: int) -> TopicPlan:
    """Request the state of a topic at `now_ms`, before it is read. Raises `WireError`."""
    topic = client.topic(name)
    config = client.config(name)
    return TopicPlan(
        topic, tuple(_partition(client, topic, index, config, now_ms) for index in topic.partitions)
    )


def splits_of_replicas(plan: TopicPlan, records_per_split: int) -> Iterator[Split]:
    """The splits of every replica up to the same end offset."""
    brokers = sorted({replica.broker for facts in plan.partitions for replica in facts.replicas})
    for broker in brokers:
        ranges = [
            Range(facts.partition, max(known.start_offset, 0), facts.end_offset)
            for facts in plan.partitions
            if (known := facts.replica(broker)) is not None
        ]
        yield from splits_of(plan.topic, broker, ranges, records_per_split)


def interleaved(splits: Iterable[Split]) -> list[Split]:
    """Ordered so that after a time limit the replicas of a partition have been read equally far."""
    return sorted(
        splits,
        key=lambda split: (split.at.topic, split.at.partition, split.start, split.at.replica),
    )


def offsets_afterwards(client: Client, facts: Mapping[Place, PartitionFacts]) -> dict[Place, After]:
    """The ISR and the offsets of replicas after the read; without brokers that do not answer."""
    found: dict[Place, After] = {}
    for name in sorted({topic for topic, _ in facts}):
        topic = client.topic(name)
        for (topic_name, index), partition in facts.items():
            if topic_name != name or index not in topic.partitions:
                continue
            brokers = [known.broker for known in partition.replicas]
            starts = {
                broker: _offset_of(client, topic, index, EARLIEST, broker) for broker in brokers
            }
            cleans = {
                broker: _offset_of(client, topic, index, CLEAN_POINT, broker)
                if partition.compacts
                else None
                for broker in brokers
            }
            found[name, index] = After(
                in_sync=frozenset(topic.partitions[index].isr),
                start_offsets=_known(starts),
                clean_offsets=_known(cleans),
            )
    return found


def _partition(
    client: Client, topic: TopicFacts, index: int, config: Mapping[str, str], now_ms: int
) -> PartitionFacts:
    """Request the state of one partition and of its replicas."""
    known = topic.partitions[index]
    replicas: Sequence[ReplicaFacts] = [
        ReplicaFacts(
            broker=broker,
            in_sync=broker in known.isr,
            start_offset=_value_or_default(
                _offset_of(client, topic, index, EARLIEST, broker), UNKNOWN
            ),
            clean_offset=_offset_of(client, topic, index, CLEAN_POINT, broker),
            stable_offset=_stable_offset(client, topic, index, broker),
        )
        for broker in known.replicas
    ]
    start = client.offsets(topic, {index: EARLIEST})[index]
    end = client.offsets(topic, {index: LATEST})[index]
    replicas = [_with_late_stable_offset(client, topic, index, one, end) for one in replicas]
    policy = config.get(topic_keys.CLEANUP_POLICY.name, DELETE)
    was_compacted = any((replica.clean_offset or UNKNOWN) >= 0 for replica in replicas)
    return PartitionFacts(
        topic=topic.name,
        partition=index,
        leader=known.leader_id,
        start_offset=start,
        end_offset=max(start, end),
        epochs=_history(client, topic, index, start),
        replicas=tuple(replicas),
        partitions=len(topic.partitions),
        compacts=COMPACT in policy or was_compacted,
        deletes=DELETE in policy,
        retention_ms=int(config.get(topic_keys.RETENTION_MS.name, -1)),
        retention_bytes=int(config.get(topic_keys.RETENTION_BYTES.name, -1)),
        timestamp_after_max_ms=int(
            config.get(topic_keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS.name, 2**63 - 1)
        ),
        topic_id=str(TopicId(topic.topic_id.bytes)),
        planned_ms=now_ms,
    )


def _history(client: Client, topic: TopicFacts, index: int, start: int) -> EpochHistory:
    """Request the leader's epochs from the newest to the one at the log start offset."""
    epoch_limit, found = topic.partitions[index].leader_epoch, []
    while epoch_limit != UNKNOWN:
        epoch, end = client.epoch_end(topic, index, epoch_limit)
        if epoch == UNKNOWN:
            break
        found.append((epoch, end))
        epoch_limit = next_epoch_to_request(found, start)
    return history_of(found)


def _with_late_stable_offset(
    client: Client, topic: TopicFacts, index: int, known: ReplicaFacts, end: int
) -> ReplicaFacts:
    """The replica with its `late_stable_offset`. It is requested only if there may be an open
    transaction, and counts only if the replica has all records below `end`.

    Without the beginning of a transaction, the log start offset is reported as the last stable one,
    which says nothing about the other batches.
    """
    if not known.in_sync or known.stable_offset == UNKNOWN:
        return known
    if known.stable_offset >= end:
        return replace(known, late_stable_offset=known.stable_offset)
    high_watermark = _offset_of(client, topic, index, LATEST, known.broker)
    stable = _stable_offset(client, topic, index, known.broker)
    start = _offset_of(client, topic, index, EARLIEST, known.broker)
    if high_watermark is None or high_watermark < end or start is None or stable <= start:
        return known
    return replace(known, late_stable_offset=stable)


def _stable_offset(client: Client, topic: TopicFacts, index: int, broker: int) -> int:
    """The last stable offset of a broker's replica; -1 if it does not answer."""
    committed = Isolation.READ_COMMITTED
    offset = _offset_of(client, topic, index, LATEST, broker, committed)
    return _value_or_default(offset, UNKNOWN)


def _offset_of(
    client: Client,
    topic: TopicFacts,
    index: int,
    place: int,
    broker: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> int | None:
    """The offset of a broker's replica; None if it does not answer: the read then reports why."""
    try:
        return client.offsets(topic, {index: place}, broker, isolation)[index]
    except WireError:
        return None


def _value_or_default(value: int | None, other: int) -> int:
    return other if value is None else value


def _known(offsets: Mapping[int, int | None]) -> dict[int, int]:
    return {broker: offset for broker, offset in offsets.items() if offset is not None}
