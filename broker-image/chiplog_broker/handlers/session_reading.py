"""Answers a fetch of a session: only partitions that may have changed are read.

Partitions notify the session of their changes. So a fetch that finds no records costs the same in a
session with one partition as in one with thousands.
"""

from chiplog_broker.fetch_sessions.session import FetchSession, SessionEntry, SessionTopic
from chiplog_broker.handlers.reading import Reading
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.waiting import FetchWaiter
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)

MAX_CHANGED_PARTITIONS = 1_000
"""Changed partitions in one answer to a consumer; other changes follow in the next one. Without a
limit, a request of a few bytes could read thousands of partitions for one answer."""


class SessionReading:
    """Reads for a fetch of a session, in one or more attempts; each reads changed partitions
    only."""

    def __init__(self, session: FetchSession, reading: Reading) -> None:
        """`reading` reads single partitions; it knows whether the reader is a consumer or a
        follower."""
        self._session = session
        self._reading = reading
        self._epoch = session.epoch
        self._changes: list[tuple[SessionEntry, FetchPartitionResponse]] = []
        self._is_full = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found enough for an answer, or more attempts cannot find
        more."""
        return self._reading.is_enough or self._is_overtaken or self._is_full

    @property
    def has_changes(self) -> bool:
        """Whether the last attempt found changes that its reader should get soon, though not at
        once."""
        return self._reading.wants_changes and bool(self._changes)

    @property
    def _is_overtaken(self) -> bool:
        """Whether the session's next fetch arrived before this one was answered."""
        return self._session.epoch != self._epoch

    def attempt(self) -> FetchResponse:
        """Read the partitions that may have changed, up to the size limit of the request."""
        session = self._session
        self._reading.begin()
        self._changes, self._is_full = [], False
        if self._is_overtaken:
            code = ErrorCode.invalid_fetch_session_epoch
            return FetchResponse([], error_code=code, session_id=session.id)
        topics: dict[SessionTopic, list[FetchPartitionResponse]] = {}
        # Only brokers get all changes at once.
        for entry in list(session.maybe_changed):
            if len(self._changes) >= MAX_CHANGED_PARTITIONS and not session.owner.is_privileged:
                self._is_full = True
                break
            found = self._read(entry)
            if found is not None:
                self._changes.append((entry, found))
                topics.setdefault(entry.topic, []).append(found)
        answers = [
            FetchTopicResponse(topic.name, topic.topic_id, topics[topic]) for topic in topics
        ]
        return FetchResponse(answers, session_id=session.id)

    def sent(self, response: FetchResponse) -> FetchResponse:
        """Called before the answer of the last attempt is sent: the session notes what its reader,
        a consumer or a follower, knows from now on. Returns the answer to send."""
        for entry, found in self._changes:
            self._session.note_sent(entry, found)
        return self._reading.sent(response)

    def join(self, waiter: FetchWaiter) -> None:
        """Register a fetch, which the session wakes when one of its partitions changes."""
        self._session.waiter = waiter

    def leave(self, waiter: FetchWaiter) -> None:
        """End the registration of a fetch by `join`, unless a newer fetch has replaced it."""
        if self._session.waiter is waiter:
            self._session.waiter = None

    def _read(self, entry: SessionEntry) -> FetchPartitionResponse | None:
        """The changes of one partition; None if there are none.

        If there are none and `reading` allows it, the session skips the partition until the
        partition notifies it of a change.
        """
        reading, wanted = self._reading, entry.wanted
        name = reading.name_of(entry.topic.name, entry.topic.topic_id)
        try:
            if name is None:
                raise PartitionError(ErrorCode.unknown_topic_id)
            partition = reading.find(name, wanted)
            entry.watch(reading.watchers(partition))
            found = reading.read(partition, wanted)
        except (PartitionError, *REFUSALS) as refused:
            return reading.refused(name, wanted, code_of(refused))
        if entry.is_changed(found):
            return found
        if reading.try_idle(partition, entry):
            self._session.mark_unchanged(entry)
        return None
