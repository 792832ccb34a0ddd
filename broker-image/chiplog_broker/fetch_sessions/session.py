"""One incremental fetch session (KIP-227): what a reader asks for again and again, said once.

Both ends remember the partitions and where the reader is in each. A request then names only
those that changed, an answer only those of which there is news. So that a request which
changes nothing costs nothing, a session also knows of which partitions there may be news: each
tells its entries when it changed, and the others are not even looked at.
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
"""Of a fetch outside a session, which ends the one that it names."""
INITIAL_EPOCH: Final = 0
"""Of a fetch that ends the session that it names and begins another."""
FIRST_EPOCH: Final = 1
LAST_EPOCH: Final = 2**31 - 1

TopicKey: TypeAlias = UUID | str | None
"""What requests call a topic: its id from Fetch 13 on, its name before."""
Watchers: TypeAlias = dict[Any, None]
"""The entries that one partition tells when it changed."""


class Waiting(Protocol):
    """A fetch that waits in a session."""

    def changed(self) -> None:
        """There may be news."""


def next_epoch(epoch: int) -> int:
    """What the request after this one must say."""
    return FIRST_EPOCH if epoch == LAST_EPOCH else epoch + 1


class Owner(NamedTuple):
    """Who may use a session: an id alone, which could be guessed, opens nothing."""

    principal: str
    is_internal: bool
    replica_id: int
    replica_epoch: int

    @property
    def is_privileged(self) -> bool:
        """Whether it is a follower; consumers make room for those."""
        return self.replica_id >= 0


class SessionTopic:
    """The partitions of one topic in one session."""

    __slots__ = ("entries", "name", "topic_id")

    def __init__(self, name: str | None, topic_id: UUID | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.entries: dict[int, SessionEntry] = {}


class SessionEntry:
    """One partition of one session: where its reader is, and what it was told last."""

    __slots__ = (
        "_left_s",
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
        self.high_watermark = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self._watchers: Watchers | None = None
        self._left_s: float | None = None

    @property
    def polled_s(self) -> float:
        """When its reader last asked for it, if only by not saying anything else."""
        return self.session.polled_s if self._left_s is None else self._left_s

    def changed(self) -> Waiting | None:
        """There may be news of its partition; returns the fetch that waits in its session."""
        session = self.session
        if self._left_s is None:
            session.unsettled[self] = None
        return session.waiter

    def watch(self, watchers: Watchers) -> None:
        """Be told what happens to this partition, and to no other."""
        if watchers is not self._watchers:
            self.unwatch()
            if self._left_s is None:
                watchers[self] = None
                self._watchers = watchers

    def unwatch(self) -> None:
        """Be told nothing: there is no partition, or it is not wanted any more."""
        if self._watchers is not None:
            self._watchers.pop(self, None)
            self._watchers = None

    def leave(self) -> None:
        """The session goes on without it, or ends."""
        self.unwatch()
        self._left_s = self.session.polled_s

    def goes_on(self, wanted: FetchPartition) -> None:
        """Its reader asks for something else; in another leader epoch it is told all anew.

        Whoever follows a reign is to hear of it from its leader.
        """
        if wanted.current_leader_epoch != self.wanted.current_leader_epoch:
            self.high_watermark = UNKNOWN_OFFSET
        self.wanted = wanted

    def is_news(self, found: FetchPartitionResponse) -> bool:
        """Whether the reader must be told of this (as Kafka judges it)."""
        return bool(
            found.records
            or found.error_code
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
            or found.diverging_epoch is not None
            or found.preferred_read_replica >= 0
        )

    def told(self, found: FetchPartitionResponse) -> None:
        """What its reader knows now; after an error it is told everything anew."""
        self.high_watermark = UNKNOWN_OFFSET if found.error_code else found.high_watermark
        self.log_start_offset = found.log_start_offset


class FetchSession:
    """The partitions that one reader asks for, and which of them to look at."""

    __slots__ = (
        "created_s",
        "epoch",
        "holder",
        "id",
        "owner",
        "polled_s",
        "size",
        "topics",
        "unsettled",
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
        self.polled_s = now_s
        """When it was used last."""
        self.epoch = FIRST_EPOCH
        """What its next request must say."""
        self.topics: dict[TopicKey, SessionTopic] = {}
        self.size = 0
        """Partitions in it."""
        self.unsettled: dict[SessionEntry, None] = {}
        """Those of which there may be news; whose turn comes first stands first."""
        self.waiter: Waiting | None = None
        """The fetch that waits in it for news."""
        self.holder: object | None = None
        """The connection that used it last."""

    def update(
        self, topics: Sequence[FetchTopic], forgotten: Sequence[ForgottenTopic], now_s: float
    ) -> None:
        """The reader asks again, after these changes; what it does not name stays."""
        for topic in topics:
            self._put(topic)
        for gone in forgotten:
            self._forget(gone)
        # Who is forgotten now was not asked for now.
        self.polled_s = now_s

    def settled(self, entry: SessionEntry) -> None:
        """There is no news of it until it changes."""
        self.unsettled.pop(entry, None)

    def told(self, entry: SessionEntry, found: FetchPartitionResponse) -> None:
        """This is what its reader is answered; what has records, or an error, comes last from now
        on."""
        entry.told(found)
        if (found.records or found.error_code) and entry in self.unsettled:
            del self.unsettled[entry]
            self.unsettled[entry] = None

    def end(self) -> None:
        """Nothing is remembered any more."""
        for topic in self.topics.values():
            for entry in topic.entries.values():
                entry.leave()
        self.topics = {}
        self.unsettled = {}
        self.size = 0

    def _put(self, topic: FetchTopic) -> None:
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
                entry.goes_on(wanted)
            self.unsettled[entry] = None
        if not entries:
            del self.topics[key]

    def _forget(self, topic: ForgottenTopic) -> None:
        key = topic.topic_id or topic.name
        held = self.topics.get(key)
        if held is None:
            return
        for index in topic.partitions:
            entry = held.entries.pop(index, None)
            if entry is not None:
                entry.leave()
                self.unsettled.pop(entry, None)
                self.size -= 1
        if not held.entries:
            del self.topics[key]
