"""Which keys of a partition of `__consumer_offsets` are deleted, and when.

Each function returns keys; `batches.tombstones` makes the records. A group's offsets come before
the group itself: if only the first batches are written, the next call finds the rest. The resets of
a group are deleted with it, because a reset id is unique only within the lifetime of a group.

Offsets that an open transaction may still commit do not expire: the commit marker would restore the
offset, or the tombstone would delete an offset that was committed for another topic.
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
    """When the retention of a group's offsets begins, and which topics are exempt."""

    spared_topics: frozenset[str] = frozenset()
    """The offsets of these topics do not expire."""
    since_ms: int | None = None
    """When the retention of all offsets began; None if that of each begins with its commit."""


@dataclass(frozen=True, slots=True)
class _Retention:
    """How long a group's offsets are kept."""

    length_ms: int | None
    """None: for ever."""
    is_groups_own: bool = False
    """Whether it was set for this group; then it overrides the expiry times of commits."""


def expired_keys(
    state: GroupsState, group: str, *, is_rebalancing: bool, now_ms: int, retention_ms: int
) -> list[Key]:
    """The expired offsets of a group, and the group itself if it has neither offsets nor members
    (KIP-211 and `offsets.retention.minutes`).

    * If a group has members, nothing expires, with one exception: in a Stable group of consumers,
      offsets that were committed more than `retention_ms` ago for topics to which no member
      subscribes.
    * In an Empty group everything expires `retention_ms` after it became Empty. If an old Kafka did
      not store that time, each offset expires `retention_ms` after its commit.
    * In a group without a protocol type, whose consumers assign their partitions themselves, each
      offset expires `retention_ms` after its commit.
    * A commit with an expiry time of its own expires at that time.
    * A retention of the group's own replaces `retention_ms` and the expiry times of commits: it was
      set for all offsets of the group.

    `is_rebalancing` is true while the stored group is not the current one: members join or wait for
    their assignment. Then nothing expires.
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
        and _has_expired(commit, expiry, now_ms, retention)
        and not state.has_pending(group, partition)
    ]
    has_members = stored is not None and stored.members
    if not has_members and len(keys) == len(offsets) and not any(state.pending(group)):
        keys += _keys_of_group_itself(state, group)
    return keys


def keys_of_topic(state: GroupsState, topic_id: UUID) -> dict[str, list[Key]]:
    """Group -> the keys of the offsets that it has committed for this topic, which was deleted.

    Commits without a topic id are not included: the name may belong to another topic now.
    """
    by_group = {
        group: list(_keys_of_topic_in(state, group, topic_id))
        for group in sorted(state.group_ids())
    }
    return {group: keys for group, keys in by_group.items() if keys}


def _keys_of_topic_in(state: GroupsState, group: str, topic_id: UUID) -> Iterator[Key]:
    """The keys of this group's offsets that were committed for the topic.

    If open transactions may commit offsets with the same key, those must be of the topic, too: the
    tombstone would delete them all.
    """
    others = {
        partition for partition, commit in state.pending(group) if commit.topic_id != topic_id
    }
    for partition, commit in state.offsets(group).items():
        if commit.topic_id == topic_id and partition not in others:
            yield OffsetCommitKey(group, partition)


def keys_of_group(state: GroupsState, group: str) -> list[Key]:
    """All keys of a group (DeleteGroups), also of open transactions.

    Its offset retention is not included: it belongs to the name, and applies to the next group of
    this name, too.
    """
    partitions = dict.fromkeys(state.offsets(group))
    partitions |= dict.fromkeys(partition for partition, _ in state.pending(group))
    keys: list[Key] = [OffsetCommitKey(group, partition) for partition in partitions]
    return keys + _keys_of_group_itself(state, group)


def _keys_of_group_itself(state: GroupsState, group: str) -> list[Key]:
    """The keys of a group without its offsets: its resets, and its generation and members."""
    keys: list[Key] = [DoneResetKey(group, reset_id) for reset_id in state.resets(group)]
    if state.group(group) is not None:
        keys.append(GroupMetadataKey(group))
    return keys


def _expiry(stored: StoredGroup | None) -> _Expiry | None:
    """Which offsets of a group expire, by its stored state; None if nothing expires."""
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
            return None  # unreadable: it may subscribe to any topic
        topics |= subscribed
    return _Expiry(spared_topics=topics)


def _has_expired(
    commit: CommittedOffset, expiry: _Expiry, now_ms: int, retention: _Retention
) -> bool:
    """Whether a committed offset has expired at `now_ms`."""
    if commit.expire_timestamp_ms is not None and not retention.is_groups_own:
        return now_ms >= commit.expire_timestamp_ms
    if retention.length_ms is None:
        return False
    since_ms = commit.commit_timestamp_ms if expiry.since_ms is None else expiry.since_ms
    return now_ms - since_ms >= retention.length_ms
