"""The fetch sessions of a broker: their limits, and which are evicted (KIP-227).

A new session may replace one that was not used for two minutes; a follower's may replace a
consumer's; a larger one may replace a smaller one that is older than two minutes. If none can be
replaced, the reader gets no session and continues with full fetches.

Kafka limits only the number of sessions. Here their partitions are limited, too, in one session and
in total: a client must not be able to occupy any amount of memory.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from chiplog_broker.fetch_sessions.session import NO_SESSION, FetchSession, Owner, next_epoch
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import FetchRequest, FetchResponse

STALE_AFTER_S: Final = 120.0
MAX_SESSION_PARTITIONS: Final = 20_000
MAX_PARTITIONS: Final = 400_000
"""Partitions of all sessions, of about 350 bytes each."""

EvictionPriority: TypeAlias = tuple[bool, int, int]
"""Whether the reader is a follower, number of partitions, session id: the session with the lowest
value is evicted first."""


class FetchSessionCache:
    """Opens, continues and closes sessions. The time is given in seconds of any one clock."""

    def __init__(
        self,
        slots: int,
        chance: Callable[[], int],
        max_partitions: int = MAX_PARTITIONS,
        max_session_partitions: int = MAX_SESSION_PARTITIONS,
    ) -> None:
        """`chance` returns session ids: random numbers from 0 to 2**31 - 1 that are hard to
        guess."""
        self._slots = slots
        self._chance = chance
        self._max_partitions = max_partitions
        self._max_session_partitions = max_session_partitions
        self._sessions: dict[int, FetchSession] = {}
        # Session ids, the least recently used first.
        self._by_use: dict[int, None] = {}
        # All values of `_priorities` in ascending order.
        self._by_priority: list[EvictionPriority] = []
        # Session id -> the present priority of the session.
        self._priorities: dict[int, EvictionPriority] = {}
        self.partitions = 0
        """The number of partitions of all sessions."""
        self.evictions = 0
        """The number of sessions that were evicted so far."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def open(
        self,
        owner: Owner,
        request: FetchRequest,
        response: FetchResponse,
        now_s: float,
        *,
        uses_topic_ids: bool,
    ) -> int:
        """Open a session with the partitions of a full fetch and its answer. Returns the session
        id, or `NO_SESSION` if the limits do not allow it, or the fetch has no partition."""
        size = sum(len(topic.partitions) for topic in request.topics)
        if not size or not self._evict_for_new(owner, size, now_s):
            return NO_SESSION
        session = FetchSession(self._new_id(), owner, now_s, uses_topic_ids=uses_topic_ids)
        session.update(request.topics, (), now_s)
        for topic in response.topics:
            for found in topic.partitions:
                held = session.topics[topic.topic_id or topic.name]
                session.note_sent(held.entries[found.partition], found)
        self._sessions[session.id] = session
        self._put(session)
        return session.id

    def close(self, session_id: int, owner: Owner) -> None:
        """Close a session at the request of its reader; requests of other readers are ignored."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            self._remove(session)

    def set_holder(self, session_id: int, holder: object) -> None:
        """This connection uses the session from now on."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.holder = holder

    def holder_left(self, session_id: int, holder: object) -> None:
        """This connection is closed, or uses another session: remove the session that it held.

        Kafka keeps such a session until it is evicted. But a reader that lost its connection starts
        a new session, so the old one only occupies memory.
        """
        session = self._sessions.get(session_id)
        if session is not None and session.holder is holder:
            self._remove(session)

    def resume(
        self, owner: Owner, request: FetchRequest, now_s: float, *, uses_topic_ids: bool
    ) -> FetchSession | ErrorCode:
        """The session of an incremental fetch, after applying the changes that the request names;
        an error code if there is no such session for this reader.

        If no partition is left, the session is closed.
        """
        session = self._sessions.get(request.session_id)
        if session is None or session.owner != owner:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.fetch_session_topic_id_error
        session.update(request.topics, request.forgotten_topics, now_s)
        if not session.size:
            self._remove(session)
            return session
        session.epoch = next_epoch(session.epoch)
        self._put(session)
        if not self._evict_for_grown(session, now_s):
            # The reader starts again with a full fetch, and gets no session of this size.
            self._remove(session)
            return ErrorCode.fetch_session_id_not_found
        return session

    def _new_id(self) -> int:
        """A random id that no session has."""
        while True:
            candidate = self._chance()
            if candidate != NO_SESSION and candidate not in self._sessions:
                return candidate

    def _put(self, session: FetchSession) -> None:
        """Update the orders of eviction: the session was used now, and may have grown or shrunk."""
        key = session.id
        self._by_use.pop(key, None)
        self._by_use[key] = None
        before = self._priorities.get(key)
        priority = session.owner.is_privileged, session.size, key
        if priority != before:
            self._drop_priority(before)
            insort(self._by_priority, priority)
            self._priorities[key] = priority
            self.partitions += session.size

    def _drop_priority(self, priority: EvictionPriority | None) -> None:
        """Remove this entry from the order of eviction; None if the session had none."""
        if priority is not None:
            _, partitions, _ = priority
            del self._by_priority[bisect_left(self._by_priority, priority)]
            self.partitions -= partitions

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        del self._by_use[session.id]
        self._drop_priority(self._priorities.pop(session.id))
        session.end()

    def _evict_for_new(self, owner: Owner, size: int, now_s: float) -> bool:
        """Evict sessions until a new one with `size` partitions keeps the limits. False if it is
        too large, or may not replace the others."""
        if size > self._max_session_partitions or size > self._max_partitions:
            return False
        # With this id, the lowest, it replaces no session of the same rank and size.
        priority = owner.is_privileged, size, NO_SESSION
        while len(self) >= self._slots or self.partitions + size > self._max_partitions:
            if not self._evict_one(priority, now_s):
                return False
        return True

    def _evict_for_grown(self, session: FetchSession, now_s: float) -> bool:
        """Evict other sessions after this one has grown, until the limits are kept. False if it is
        too large, or may not replace the others."""
        if session.size > self._max_session_partitions:
            return False
        priority = session.owner.is_privileged, session.size, NO_SESSION
        while self.partitions > self._max_partitions:
            # It cannot evict itself: it has the same priority, and was just used.
            if not self._evict_one(priority, now_s):
                return False
        return True

    def _evict_one(self, newcomer: EvictionPriority, now_s: float) -> bool:
        """Evict a session for one with the priority `newcomer`; False if none may be evicted."""
        evicted = self._stale_session(now_s) or self._lower_priority(newcomer, now_s)
        if evicted is None:
            return False
        self._remove(evicted)
        self.evictions += 1
        return True

    def _stale_session(self, now_s: float) -> FetchSession | None:
        """The least recently used session, if it was not used for two minutes."""
        session_id = next(iter(self._by_use), None)
        if session_id is None:
            return None
        session = self._sessions[session_id]
        return session if now_s - session.polled_s > STALE_AFTER_S else None

    def _lower_priority(self, newcomer: EvictionPriority, now_s: float) -> FetchSession | None:
        """The session of the lowest priority that may be evicted for one with the priority
        `newcomer`; None if there is none. A follower's session replaces that of a consumer;
        otherwise a session is replaced only if it is older than two minutes."""
        for priority in self._by_priority:
            if newcomer < priority:
                break
            is_privileged, _, session_id = priority
            session = self._sessions[session_id]
            newcomer_is_privileged, _, _ = newcomer
            has_lower_rank = newcomer_is_privileged and not is_privileged
            if has_lower_rank or now_s - session.created_s > STALE_AFTER_S:
                return session
        return None
