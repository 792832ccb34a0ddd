"""Planted bugs of replication: high watermark, ISR, fetches and acknowledgements.

Each function replaces one of the broker; `_sound_...` is the original.
"""

import asyncio
from collections import deque
from typing import Any, Final

from chiplog_broker.handlers import replica_fetch
from chiplog_broker.partitions import followers as followers_module
from chiplog_broker.partitions import isr
from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.isr import BindingProposal, InSync
from chiplog_broker.partitions.partition import Partition, PartitionContext
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.storage.log import AppendResult, LogSlice, PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.transaction_coordinator.producer_ids import COUNTER_BITS, ProducerIds
from chiplog_core.ids import ReplicaRef
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix, plant

_sound_append = Partition.append
_sound_fetched = Followers.fetched
_sound_count = Followers._count  # noqa: SLF001
_sound_draw = ProducerIds.draw
_sound_init = Partition.__init__
_sound_read = Partition.read


def _append_for_one(
    partition: Partition, records: memoryview, now_ms: int, *, acks_all: bool = False, **given: Any
) -> AppendResult:
    """Append with acks=all without checking min ISR, as for acks=1."""
    del acks_all
    return _sound_append(partition, records, now_ms, **given)


def _count_the_living(followers: Followers, now_s: float) -> None:
    """Let the high watermark wait only for running ISR members, not for all."""
    _sound_count(followers, now_s)
    living = set(followers._view.live_refs)  # noqa: SLF001
    known = followers._followers  # noqa: SLF001
    waited_for = isr.counted_followers(followers._own, followers._isr, followers._proposal)  # noqa: SLF001
    followers._counted_followers = tuple(known[one] for one in waited_for if one in living)  # noqa: SLF001


def _duplicate_is_done(
    partition: Partition, records: memoryview, now_ms: int, *, acks_all: bool = False, **given: Any
) -> AppendResult:
    """Acknowledge a duplicate at once, without waiting until the first copy is replicated."""
    appended = _sound_append(partition, records, now_ms, acks_all=acks_all, **given)
    return appended._replace(last_offset=-1) if appended.duplicate else appended


def _join_by_high_watermark(follower: ReplicaRef, known: InSync) -> bool:
    """Let a follower join the ISR at the high watermark, even below the leader epoch's start."""
    if follower.broker_id not in known.replicas or follower not in known.live:
        return False
    progress = known.progress.get(follower)
    return progress is not None and progress.end_offset >= known.high_watermark


def _forget_proposal(
    own: ReplicaRef, listed: Any, proposal: BindingProposal | None
) -> tuple[ReplicaRef, ...]:
    """Count only listed members, not those that the leader proposed for the ISR."""
    del proposal
    return tuple(sorted({*listed} - {own}))


def _fetched_by_any_session(
    followers: Followers, follower: ReplicaRef, *what: Any, **more: Any
) -> None:
    """Count a fetch of a new broker process as one of its earlier process in the ISR."""
    known = followers._followers  # noqa: SLF001
    for ref, one in list(known.items()):
        if ref.broker_id == follower.broker_id and ref != follower:
            known.setdefault(follower, one)
    _sound_fetched(followers, follower, *what, **more)


def _one_counter(ids: ProducerIds) -> int | None:
    """Give out producer ids without the part that makes them unique to a broker's session."""
    producer_id = _sound_draw(ids)
    return None if producer_id is None else producer_id & ((1 << COUNTER_BITS) - 1)


def _share_waiters(
    partition: Partition,
    name: TopicPartition,
    log: PartitionLog,
    high_watermark: int,
    context: PartitionContext,
) -> None:
    """Let all partitions of a broker share one queue of waiting produce requests."""
    _sound_init(partition, name, log, high_watermark, context)
    queue = context.fetch_waiters.__dict__.setdefault("shared", deque())
    partition._produce_waiters._queue = queue  # noqa: SLF001


async def _keep_following(_replicas: Replicas, partition: Partition) -> None:
    """Let the fetcher of the old leader epoch continue beside the new leadership."""
    await asyncio.sleep(0)
    partition.following = None


def _lead_on(_partition: Partition) -> None:
    """Let a deposed leader continue to serve requests."""


def _read_to_the_end(
    partition: Partition, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool
) -> LogSlice | None:
    """Let consumers read a follower's log above the high watermark."""
    if partition.following is None:
        return _sound_read(partition, offset, max_bytes, up_to_offset, min_one=min_one)
    return partition.read_as_follower(offset, max_bytes, min_one=min_one)


MUTANTS: Final = (
    Mutant(
        "acknowledged before replication",
        mix(3, 3.0, "power cut", "broker killed", "slow network"),
        LOSS,
        plant(Followers, "safe_offset", lambda _followers, own_end_offset: own_end_offset),
    ),
    Mutant(
        "the high watermark ignores min ISR",
        mix(3, 10.0, "alone and lost", faults_s=170.0),
        LOSS | FORK,
        (
            Plant(Followers, "_count", _count_the_living),
            Plant(Partition, "append", _append_for_one),
        ),
    ),
    Mutant(
        "a duplicate is acknowledged before the high watermark",
        mix(3, 4.0, "cut off and lost", "slow network", "connections broken"),
        LOSS,
        plant(Partition, "append", _duplicate_is_done),
    ),
    Mutant(
        "the ISR is joined below the epoch's start",
        mix(3, 2.0, "joined and lost", faults_s=170.0),
        LOSS | FORK | {"not-healed"},
        plant(isr, "may_join", _join_by_high_watermark),
    ),
    Mutant(
        "a proposal is withdrawn",
        mix(3, 2.0, "promised and lost", faults_s=20.0),
        LOSS | FORK,
        plant(followers_module, "counted_followers", _forget_proposal),
    ),
    Mutant(
        "the session is ignored in Fetch",
        mix(3, 1.5, "domino", "slow network", config={"chiplog.durability": "PageCache"}),
        LOSS | FORK,
        plant(Followers, "fetched", _fetched_by_any_session),
    ),
    Mutant(
        "two brokers give out the same producer id",
        mix(3, 3.0, "broker killed"),
        LOSS | {"duplicate", "nonmonotonic-send", "reordered", "client-problem"},
        plant(ProducerIds, "draw", _one_counter),
    ),
    Mutant(
        "the waiters of partitions are mixed",
        mix(3, 2.0, "lost at an acknowledgement", faults_s=20.0),
        LOSS,
        plant(Partition, "__init__", _share_waiters),
    ),
    Mutant(
        "a new leader goes on fetching",
        mix(3, 2.0, "cut off the API server", "broker paused"),
        LOSS | FORK,
        (
            Plant(Replicas, "_stop_following", _keep_following),
            Plant(replica_fetch, "diverging_epoch_of", lambda *_: None),
        ),
    ),
    Mutant(
        "a deposed leader serves on open connections",
        mix(2, 10.0, "back and gone", faults_s=60.0),
        LOSS | FORK,
        plant(Partition, "resign", _lead_on),
    ),
    Mutant(
        "a follower shows what is not safe yet",
        mix(3, 2.0, "shown and lost", faults_s=20.0, reads_in_racks=True),
        LOSS,
        plant(Partition, "read", _read_to_the_end),
    ),
)
