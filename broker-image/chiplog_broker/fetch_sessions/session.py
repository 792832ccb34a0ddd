"""One incremental fetch session (KIP-227), in which unchanged partitions are not repeated.

Both ends remember the partitions and the reader's position in each. A request names only changed
positions, an answer only partitions with changes. A session also knows which partitions may have
changed, because partitions notify their entries. So a fetch without changes costs nothing, whatever
the size of the session.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchTopic,
    ForgottenTopic,
)

UNKNOWN_OFFSET: Final = -1
NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
"""The epoch of a full fetch without a session; it closes the session that it names."""
INITIAL_EPOCH: Final = 0
"""The epoch of a full fetch that closes the session that it names and opens another."""
FIRST_EPOCH: Final = 1
LAST_EPOCH: Final = 2**31 - 1

TopicKey: TypeAlias = UUID | str | None
"""How requests name a topic: by id from Fetch 13 on, by name before."""
Watchers: TypeAlias = dict[Any, None]
"""The session entries that one partition notifies of changes."""


class Waiting(Protocol):
    """A fetch that waits in a session."""

    def changed(self) -> None:
        """A partition of the session may have changed."""


def next_epoch(epoch: int) -> int:
    """The epoch that the request after the one with this epoch must have."""
    return FIRST_EPOCH if epoch == LAST_EPOCH else epoch + 1


class Owner(NamedTuple):
    """Who may use a session: knowing the id is not enough, as it could be guessed."""

    principal: str
    is_internal: bool
    replica_id: int
    replica_epoch: int

    @property
    def is_privileged(self) -> bool:
        """Whether it is a follower: it may evict sessions of consumers."""
        return self.replica_id >= 0


class SessionTopic:
    """The partitions of one topic in one session."""

    __slots__ = ("entries", "name", "topic_id")

    def __init__(self, name: str | None, topic_id: UUID | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.entries: dict[int, SessionEntry] = {}


class SessionEntry:
    """One partition of one session: the reader's position, and what the last answer contained."""

    __slots__ = (
        "_removed_s",
        "_watchers",
        "high_watermark",
        "log_start_offset",
        "session",
        "topic",
        "wanted",
    )

    def __init__(
        self, session: "FetchSession", topic: SessionTopic, wanted: FetchPartition
    ) -> None:
        self.session = session
        self.topic = topic
        self.wanted = wanted
        """The reader's position, and its limits for this partition."""
        self.high_watermark = UNKNOWN_OFFSET
        """The high watermark in the last answer; -1 if the next one must contain the partition."""
        self.log_start_offset = UNKNOWN_OFFSET
        """The log start offset in the last answer."""
        self._watchers: Watchers | None = None
        """Where this entry is registered for notifications."""
        self._removed_s: float | None = None
        """When the session was last used with this entry in it; None while it still is."""

    @property
    def polled_s(self) -> float:
        """When the reader last used the session with this partition in it, in seconds of the
        cache's clock."""
        return self.session.polled_s if self._removed_s is None else self._removed_s

    def changed(self) -> Waiting | None:
        """The partition may have changed: read it with the next fetch. Returns the fetch that waits
        in this session, to be notified by the caller; None if none waits."""
        session = self.session
        if self._removed_s is None:
            session.maybe_changed[self] = None
        return session.waiter

    def watch(self, watchers: Watchers) -> None:
        """Register with a partition to be notified of its changes; `watchers` is the set of that
        partition. A registration with another replica of the partition ends."""
        if watchers is not self._watchers:
            self.unwatch()
            if self._removed_s is None:
                watchers[self] = None
                self._watchers = watchers

    def unwatch(self) -> None:
        """End the registration: the partition is not here any more, or the reader removed it."""
        if self._watchers is not None:
            self._watchers.pop(self, None)
            self._watchers = None

    def leave(self) -> None:
        """This entry was removed from the session, or the session ended: end its notifications, and
        keep the time of the last use."""
        self.unwatch()
        self._removed_s = self.session.polled_s

    def update(self, wanted: FetchPartition) -> None:
        """The reader fetches the partition from another position.

        In another leader epoch the next answer contains the partition even if nothing changed: a
        follower must get the first answer of an epoch from its leader.
        """
        if wanted.current_leader_epoch != self.wanted.current_leader_epoch:
            self.high_watermark = UNKNOWN_OFFSET
        self.wanted = wanted

    def is_changed(self, found: FetchPartitionResponse) -> bool:
        """Whether the answer must contain `found`, the present state of the partition: it has
        records, an error, or something else that the reader did not get yet (Kafka's rule)."""
        return bool(
            found.records
            or found.error_code
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
            or found.diverging_epoch is not None
            or found.preferred_read_replica >= 0
        )

    def note_sent(self, found: FetchPartitionResponse) -> None:
        """Remember what the reader got. After an error the next answer contains the partition
        again."""
        self.high_watermark = UNKNOWN_OFFSET if found.error_code else found.high_watermark
        self.log_start_offset = found.log_start_offset


class FetchSession:
    """The partitions that one reader fetches, and which of them may have changed."""

    __slots__ = (
        "checked_version",
        "created_s",
        "epoch",
        "holder",
        "id",
        "maybe_changed",
        "owner",
        "polled_s",
        "size",
        "topics",
        "uses_topic_ids",
        "waiter",
    )

    def __init__(
        self, session_id: int, owner: Owner, now_s: float, *, uses_topic_ids: bool
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.uses_topic_ids = uses_topic_ids
        self.created_s = now_s
        self.checked_version: int | None = None
        """The version of the ACLs by which its partitions were checked; None without ACLs."""
        self.polled_s = now_s
        """When it was used last."""
        self.epoch = FIRST_EPOCH
        """The epoch that the next request must have."""
        self.topics: dict[TopicKey, SessionTopic] = {}
        self.size = 0
        """The number of partitions."""
        self.maybe_changed: dict[SessionEntry, None] = {}
        """Partitions that may have changed since they were read for an answer, in the order in
        which they are read next."""
        self.waiter: Waiting | None = None
        """The fetch that waits in it for records or changes."""
        self.holder: object | None = None
        """The connection that used it last."""

    def update(
        self, topics: Sequence[FetchTopic], forgotten: Sequence[ForgottenTopic], now_s: float
    ) -> None:
        """Apply the changes that a fetch names: new positions in `topics`, and removed partitions
        in `forgotten`. Other partitions stay as they are."""
        for topic in topics:
            self._put(topic)
        for removed in forgotten:
            self._forget(removed)
        # After `_forget`: a partition that this request removes was last fetched by the previous
        # one.
        self.polled_s = now_s

    def check_again(self, version: int) -> None:
        """Have all partitions read with the next answer, unless that was done for this version of
        the ACLs: the reader may have lost or got the permission to read them."""
        if self.checked_version == version:
            return
        self.checked_version = version
        for topic in self.topics.values():
            self.maybe_changed |= dict.fromkeys(topic.entries.values())

    def mark_unchanged(self, entry: SessionEntry) -> None:
        """This partition was read and has no changes: it is not read again before it notifies of
        one."""
        self.maybe_changed.pop(entry, None)

    def note_sent(self, entry: SessionEntry, found: FetchPartitionResponse) -> None:
        """Remember what the reader gets of a partition. With records or an error, the partition is
        read last the next time, so that others are not starved."""
        entry.note_sent(found)
        if (found.records or found.error_code) and entry in self.maybe_changed:
            del self.maybe_changed[entry]
            self.maybe_changed[entry] = None

    def end(self) -> None:
        """Remove all partitions."""
        for topic in self.topics.values():
            for entry in topic.entries.values():
                entry.leave()
        self.topics = {}
        self.maybe_changed = {}
        self.size = 0

    def _put(self, topic: FetchTopic) -> None:
        """Add or update the partitions of a topic that a request names; all are read next."""
        key = topic.topic_id or topic.name
        held = self.topics.get(key)
        if held is None:
            held = self.topics[key] = SessionTopic(topic.name, topic.topic_id)
        entries = held.entries
        for wanted in topic.partitions:
            entry = entries.get(wanted.partition)
            if entry is None:
                entry = entries[wanted.partition] = SessionEntry(self, held, wanted)
                self.size += 1
            else:
                entry.update(wanted)
            self.maybe_changed[entry] = None
        if not entries:
            del self.topics[key]

    def _forget(self, topic: ForgottenTopic) -> None:
        """Remove the partitions of a topic that the reader does not want any more."""
        key = topic.topic_id or topic.name
        held = self.topics.get(key)
        if held is None:
            return
        for index in topic.partitions:
            entry = held.entries.pop(index, None)
            if entry is not None:
                entry.leave()
                self.maybe_changed.pop(entry, None)
                self.size -= 1
        if not held.entries:
            del self.topics[key]
