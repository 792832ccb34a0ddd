"""Planted bugs of logs: truncation, retention, compaction, producers' state, reads.

Each function replaces one of the broker; `_sound_...` is the original.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from chiplog_broker.handlers import replica_fetch
from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.storage import log_surgery, producers
from chiplog_broker.storage.compaction.rewrite import RetentionRules
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import OffsetOutOfRangeError
from chiplog_broker.storage.log import LogSlice
from chiplog_broker.storage.log_surgery import LogSurgery
from chiplog_broker.storage.producers import RETAINED_BATCHES, ProducerStates
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import BatchHeader
from chiplog_wire.records.scan import ScannedRecord
from e2e.sim.clients import Habits
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix, plant

_sound_lead = Partition.lead
_sound_read = Partition.read
_sound_cut = LogSurgery._truncate  # noqa: SLF001
_sound_set_role = Replicas._set_role  # noqa: SLF001


def _lead_without_producers(partition: Partition, view: PartitionView, min_isr: int) -> None:
    """Forget all producers' sequence numbers when a new leader epoch begins."""
    if view.leader_epoch != partition.leader_epoch:
        state = partition.log._state  # noqa: SLF001
        state.producers = ProducerStates(state.end_offset)
    _sound_lead(partition, view, min_isr)


async def _truncate_first(
    replicas: Replicas, partition: Partition, view: PartitionView, topic: TopicView
) -> None:
    """Truncate a new follower's log to its high watermark, as Kafka did before KIP-101."""
    following = partition.following
    leadership = (following.leader_id, following.leader_epoch) if following else None
    is_followed = view.leader_id not in {-1, replicas._broker_id}  # noqa: SLF001
    if is_followed and leadership != (view.leader_id, view.leader_epoch):
        await replicas._stop_following(partition)  # noqa: SLF001
        partition.resign()
        await partition.log.truncate_to(partition.high_watermark, 0)
    await _sound_set_role(replicas, partition, view, topic)


def _truncate_bytes_only(segment: Segment, position: int, end_offset: int) -> None:
    """Truncate a segment's log file, but not its index."""
    segment.log.truncate(position)
    segment.size_bytes = position
    segment.sealed = False
    segment.end_offset = end_offset


def _read_to_the_end(
    partition: Partition, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool
) -> LogSlice | None:
    """Let consumers read the leader's log above the high watermark."""
    del up_to_offset
    if offset == partition.log.end_offset:
        return None
    return partition.log.read(offset, max_bytes, partition.log.end_offset, min_one=min_one)


def _read_or_out_of_range(
    partition: Partition, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool
) -> LogSlice | None:
    """Answer OFFSET_OUT_OF_RANGE above the high watermark, which may lag after an election."""
    if offset > partition.high_watermark:
        raise OffsetOutOfRangeError(f"{offset} is above the high watermark")
    return _sound_read(partition, offset, max_bytes, up_to_offset, min_one=min_one)


def _lead_with_safe_producers(partition: Partition, view: PartitionView, min_isr: int) -> None:
    """Forget producers' batches above the high watermark when a new leader epoch begins.

    The previous leader may have acknowledged batches above the high watermark known here.
    """
    if view.leader_epoch != partition.leader_epoch:
        entries = partition.log._state.producers._entries  # noqa: SLF001
        for producer_id, entry in list(entries.items()):
            known = [one for one in entry.batches if one.last_offset < partition.high_watermark]
            entry.batches = deque(known, RETAINED_BATCHES)
            if not known:
                del entries[producer_id]
    _sound_lead(partition, view, min_isr)


async def _cut_only(surgery: LogSurgery, end_offset: int, now_ms: int) -> None:
    """Truncate a log and keep producers' state from before the truncation."""
    state = surgery._state  # noqa: SLF001
    producers = state.producers
    await _sound_cut(surgery, end_offset, now_ms)
    state.producers = producers


class _EntryOfOneBatch(producers.ProducerEntry):
    """A producer's state that remembers only the last batch, not the last five."""

    __slots__ = ()

    def __init__(self, *given: int) -> None:
        super().__init__(*given)
        self.batches = deque(maxlen=1)

    def add(self, batch: producers.SentBatch) -> None:
        super().add(batch)
        self.in_a_row = 0


def _count_all_as_old(
    segments: Sequence[Segment], config: LogConfig, *, high_watermark: int, **_: int
) -> int:
    """Count all segments as older than `retention.ms`, unless that is -1 (unlimited)."""
    if not config.deletes or config.retention_ms < 0:
        return 0
    safe = [one for one in segments if one.end_offset <= high_watermark and one.size_bytes]
    return len(safe)


def _drop_tombstones_early(
    rules: RetentionRules, records: list[ScannedRecord], header: BatchHeader
) -> list[ScannedRecord]:
    """Remove tombstones in the first compaction, before `delete.retention.ms`."""
    return rules.keys.retained(records, header.base_offset, drops_tombstones=True)


SMALL_SEGMENTS: Final = {"index.interval.bytes": "0", "segment.index.bytes": "180"}
"""Each batch gets an index entry of 12 bytes, so 15 batches fill an index and end the segment."""
PIPELINED: Final = Habits(in_flight=5)
KEYED: Final = Habits(keys=5)
CHECK_OFTEN: Final = {"log.retention.check.interval.ms": "5000", "log.cleaner.backoff.ms": "2000"}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
}

MUTANTS: Final = (
    Mutant(
        "a retry is not recognised",
        mix(1, 3.0, "connections broken", "slow network"),
        frozenset({"duplicate"}),
        plant(ProducerStates, "check", lambda *_, **_kw: None),
    ),
    Mutant(
        "producer state is lost on failover",
        mix(3, 2.0, "broker killed", "connections broken", "slow network"),
        frozenset({"duplicate", "reordered", "nonmonotonic-send"}),
        plant(Partition, "lead", _lead_without_producers),
    ),
    Mutant(
        "followers truncate to the high watermark",
        mix(3, 1.5, "domino", "slow network"),
        LOSS | FORK,
        plant(Replicas, "_set_role", _truncate_first),
    ),
    Mutant(
        "the index is kept after truncation",
        mix(3, 2.0, "deposed and to lead", faults_s=30.0, config={"index.interval.bytes": "0"}),
        LOSS | FORK | {"not-readable", "stuck-reader", "kafka_storage_error"},
        (
            Plant(Segment, "truncate", _truncate_bytes_only),
            # Without its cache of the latest batches' positions, each read uses the index.
            Plant(Segment, "_remember", lambda *_: None),
        ),
    ),
    Mutant(
        "a leader does not say where histories part",
        mix(3, 2.0, "deposed and to lead", faults_s=30.0),
        LOSS | FORK,
        plant(replica_fetch, "diverging_epoch_of", lambda *_: None),
    ),
    Mutant(
        "readers see above the high watermark",
        mix(3, 4.0, "cut off and lost", "slow network"),
        frozenset({"dirty-read", "end-regression", "inconsistent-offsets", "out-of-range"}),
        plant(Partition, "read", _read_to_the_end),
    ),
    Mutant(
        "producer state is not rebuilt after truncation",
        mix(2, 10.0, "back and gone", faults_s=60.0),
        LOSS | FORK | {"lost-write", "client-problem"},
        plant(LogSurgery, "_truncate", _cut_only),
    ),
    Mutant(
        "producers are folded to the high watermark",
        mix(3, 2.0, "broker killed", "connections broken", "slow network"),
        frozenset({"duplicate", "reordered", "nonmonotonic-send", "client-problem"}),
        plant(Partition, "lead", _lead_with_safe_producers),
    ),
    Mutant(
        "a new leader says at once where its log ends",
        mix(3, 3.0, "broker killed", "slow network", "back and gone"),
        frozenset({"end-regression"}),
        plant(Partition, "high_watermark_is_current", property(lambda _partition: True)),
    ),
    Mutant(
        "readers above the high watermark are out of range",
        mix(3, 3.0, "broker killed", "power cut", "slow network"),
        frozenset({"out-of-range"}),
        plant(Partition, "read", _read_or_out_of_range),
    ),
    Mutant(
        "of a producer only its last batch is known",
        replace(mix(1, 3.0, "connections broken", "slow network"), habits=PIPELINED),
        frozenset({"duplicate", "reordered", "nonmonotonic-send", "client-problem"}),
        plant(producers, "ProducerEntry", _EntryOfOneBatch),
    ),
    Mutant(
        "of a producer only its last batch is known to the next leader",
        replace(
            mix(3, 3.0, "connections broken", "slow network", "broker killed"), habits=PIPELINED
        ),
        frozenset({"duplicate", "reordered", "nonmonotonic-send", "client-problem"}),
        plant(producers, "ProducerEntry", _EntryOfOneBatch),
    ),
    Mutant(
        "retention takes what is young",
        replace(mix(1, 5.0, "broker killed", config=SMALL_SEGMENTS), cluster_config=CHECK_OFTEN),
        LOSS,
        plant(log_surgery, "count_expired", _count_all_as_old),
    ),
    Mutant(
        "the first pass of compaction takes tombstones",
        replace(
            mix(1, 5.0, "connections broken", faults_s=40.0),
            habits=KEYED,
            compacted_config=COMPACTED,
            cluster_config=CHECK_OFTEN,
        ),
        LOSS | {"deleted-key-back", "poll-skip"},
        plant(RetentionRules, "of", _drop_tombstones_early),
    ),
)
