"""What of a partition of `__consumer_offsets` is to be forgotten, and when.

Each function names keys; `batches.tombstones` makes the records. A group's offsets come before the
group itself: should only the first batches be written, the next look finds the rest. The resets
that it had go with it: an id runs once for as long as there is the group.

What an open transaction may still commit is never forgotten in passing: its marker would bring the
offset back, or the tombstone would take what was committed for another topic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.keys import DoneResetKey, GroupMetadataKey, Key, OffsetCommitKey
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.retention_value import KEPT_FOR_EVER
from chiplog_core.groups.stored import NO_TIMESTAMP_MS, StoredGroup
from chiplog_wire.protocol.consumer_protocol import CONSUMER, subscribed_topics


@dataclass(frozen=True, slots=True)
class _Expiry:
    """From when on the time of a group's offsets runs, and of which topics it does not."""

    spared_topics: frozenset[str] = frozenset()
    since_ms: int | None = None
    """None: since each was committed."""


@dataclass(frozen=True, slots=True)
class _Retention:
    """How long a group's offsets are kept."""

    length_ms: int | None
    """None: for ever."""
    is_groups_own: bool = False


def expired_keys(
    state: GroupsState, group: str, *, is_rebalancing: bool, now_ms: int, retention_ms: int
) -> list[Key]:
    """The offsets of a group whose time is over, and the group, once it has neither offset nor
    member (KIP-211 and `offsets.retention.minutes`).

    * Of a group with members nothing expires, except, in a group of consumers that is Stable, what
      was committed longer ago than `retention_ms` for topics to which no member subscribes.
    * Of an Empty group everything expires `retention_ms` after it became Empty; where an old Kafka
      did not store when that was, each offset that long after its commit.
    * Of a group without a protocol type, whose consumers assign their partitions, each offset
      `retention_ms` after its commit.
    * A commit with an expiry of its own goes then, wherever another would go in time.
    * Where the group has a retention of its own, it is in the place of `retention_ms` and of what a
      commit says: who set it meant all of the group's offsets.

    `is_rebalancing` is true while what is stored is not what the group is: members join or wait
    for their assignment. Then nothing expires.
    """
    stored = state.group(group)
    expiry = None if is_rebalancing else _expiry(stored)
    if expiry is None:
        return []
    own_ms = state.retention_ms(group)
    if own_ms is None:
        retention = _Retention(retention_ms)
    else:
        retention = _Retention(None if own_ms == KEPT_FOR_EVER else own_ms, is_groups_own=True)
    offsets = state.offsets(group)
    keys: list[Key] = [
        OffsetCommitKey(group, partition)
        for partition, commit in offsets.items()
        if partition.topic not in expiry.spared_topics
        and _is_over(commit, expiry, now_ms, retention)
        and not state.has_pending(group, partition)
    ]
    has_members = stored is not None and stored.members
    if not has_members and len(keys) == len(offsets) and not any(state.pending(group)):
        keys += _of_group_itself(state, group)
    return keys


def keys_of_topic(state: GroupsState, topic_id: UUID) -> dict[str, list[Key]]:
    """By group, the offsets committed for a topic that was deleted for good.

    Not those without an id: the name may mean another topic by now.
    """
    return {
        group: keys
        for group in sorted(state.group_ids())
        if (keys := list(_of_topic(state, group, topic_id)))
    }


def _of_topic(state: GroupsState, group: str, topic_id: UUID) -> Iterator[Key]:
    pending = dict(state.pending(group))
    for partition, commit in state.offsets(group).items():
        would_be = pending.get(partition, commit)
        if commit.topic_id == would_be.topic_id == topic_id:
            yield OffsetCommitKey(group, partition)


def keys_of_group(state: GroupsState, group: str) -> list[Key]:
    """All that there is of a group (DeleteGroups), open transactions included.

    But not how long its offsets are kept: that is said of the name, for whoever uses it next too.
    """
    partitions = dict.fromkeys(state.offsets(group))
    partitions |= dict.fromkeys(partition for partition, _ in state.pending(group))
    keys: list[Key] = [OffsetCommitKey(group, partition) for partition in partitions]
    return keys + _of_group_itself(state, group)


def _of_group_itself(state: GroupsState, group: str) -> list[Key]:
    keys: list[Key] = [DoneResetKey(group, reset_id) for reset_id in state.resets(group)]
    if state.group(group) is not None:
        keys.append(GroupMetadataKey(group))
    return keys


def _expiry(stored: StoredGroup | None) -> _Expiry | None:
    """None where nothing expires."""
    if stored is None or not stored.protocol_type:
        return _Expiry()
    if not stored.members:
        since_ms = stored.current_state_timestamp_ms
        return _Expiry(since_ms=None if since_ms == NO_TIMESTAMP_MS else since_ms)
    if stored.protocol_type != CONSUMER:
        return None
    topics: frozenset[str] = frozenset()
    for member in stored.members:
        subscribed = subscribed_topics(member.subscription)
        if subscribed is None:
            return None
        topics |= subscribed
    return _Expiry(spared_topics=topics)


def _is_over(commit: CommittedOffset, expiry: _Expiry, now_ms: int, retention: _Retention) -> bool:
    if commit.expire_timestamp_ms is not None and not retention.is_groups_own:
        return now_ms >= commit.expire_timestamp_ms
    if retention.length_ms is None:
        return False
    since_ms = commit.commit_timestamp_ms if expiry.since_ms is None else expiry.since_ms
    return now_ms - since_ms >= retention.length_ms
