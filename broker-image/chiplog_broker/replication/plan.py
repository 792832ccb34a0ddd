"""Plans the next fetch request to one leader, without a socket or a clock of its own.

Every request covers all partitions that can be fetched now. Within a fetch session it names only
those whose position the leader does not know. Partitions that have waited longest for records come
first, because an answer is filled in that order until it is full. A partition whose last answer was
an error pauses for a while, longer each time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from chiplog_broker.fetch_sessions.session import INITIAL_EPOCH
from chiplog_broker.partitions.follow_steps import FetchedPartition, FetchPosition
from chiplog_broker.partitions.following import Following, Taken
from chiplog_broker.partitions.throttle import CopyShare
from chiplog_broker.replication.session import Changes, Key, LeaderSession
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
SYNC_PATIENCE_S: Final = 0.05
"""A request waits this long for running syncs, and then waits this long at the leader for records:
offsets that become durable must be reported soon."""
COPY_FACTOR: Final = 4
"""A request for copies asks for up to this many times as many bytes of each partition. Nobody waits
for a copy, so fewer and larger steps are better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The broker's own settings for its fetches."""

    wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    min_bytes: int = 1
    partition_factor: int = 1
    """So many times `partition_max_bytes` may be asked for, where the answer has space for that."""

    def for_copies(self) -> "FetchLimits":
        """The limits for replicas outside the ISR: more of each partition, but no larger
        answers."""
        return replace(self, partition_factor=COPY_FACTOR)

    def partition_bytes(self, answer_bytes: int, lags: Sequence[int]) -> list[int]:
        """How many bytes to ask for of each partition, in an answer of at most `answer_bytes`.

        `lags` are the records that each lacks. The answer is shared in proportion to them, so that
        copies are complete at about the same time: then few changes of the PartitionMap are enough
        for all of them.
        """
        fewest_bytes = self.partition_max_bytes
        most_bytes = max(min(fewest_bytes * self.partition_factor, self.max_bytes), fewest_bytes)
        # One more for each: before the first answer no lag is known.
        total = sum(lags) + len(lags)
        shares_bytes = [answer_bytes * (lag + 1) // total for lag in lags]
        return [max(min(share, most_bytes), fewest_bytes) for share in shares_bytes]


class Answered(NamedTuple):
    """The answer for one partition, and the `Following` that it is for."""

    following: Following
    fetched: FetchedPartition


class PlannedFetch(NamedTuple):
    """A planned request with its positions: an answer counts only for the leader epochs in them."""

    message: FetchRequest
    positions: Mapping[Key, FetchPosition]
    """All positions that it fetches, also those that the message does not repeat."""
    following: Mapping[Key, Following]

    @property
    def in_session(self) -> bool:
        """Whether the message contains only changes of a fetch session (KIP-227)."""
        return self.message.session_epoch != INITIAL_EPOCH

    def answers(self, response: FetchResponse) -> Iterator[Answered]:
        """The parts of an answer for the requested partitions. A partition that was not requested,
        or that occurs again, is ignored."""
        unanswered = dict(self.following)
        for topic in response.topics:
            if topic.topic_id is None:
                continue
            for answer in topic.partitions:
                key = topic.topic_id.bytes, answer.partition
                following = unanswered.pop(key, None)
                if following is not None:
                    yield Answered(following, FetchedPartition(self.positions[key], answer))


@dataclass(slots=True)
class _Entry:
    """One partition that is followed, and its failures in a row."""

    following: Following
    paused_until_s: float = 0.0
    failures: int = 0


def pause_s(failures: int, chance: float) -> float:
    """The pause after this many failures in a row: doubled with each one, up to a limit, and then
    between half and all of that by `chance`, a random number between 0 and 1."""
    # Not doubled more than 16 times: the limit is reached long before.
    longest_s = min(FIRST_PAUSE_S * (1 << min(failures - 1, 16)), LONGEST_PAUSE_S)
    return longest_s * (0.5 + chance / 2)


class FetchPlan:
    """The partitions that are followed at one leader."""

    def __init__(self, limits: FetchLimits, chance: Callable[[], float]) -> None:
        self._limits = limits
        self._chance = chance
        self._entries: dict[Key, _Entry] = {}
        self._session = LeaderSession()
        self._held_until_s = 0.0
        """When to ask the throttle again about the partitions that it holds back."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Following]:
        return (entry.following for entry in self._entries.values())

    def put(self, following: Following) -> None:
        """Fetch the partition of `following` from now on, before all others. An older `Following`
        of the partition is replaced."""
        self._entries.pop(following.key, None)
        self._entries = {following.key: _Entry(following)} | self._entries

    def drop(self, following: Following) -> None:
        """Stop fetching for this `Following`; a newer one of the same partition stays."""
        entry = self._entries.get(following.key)
        if entry is not None and entry.following is following:
            del self._entries[following.key]

    def next_request(
        self, broker_id: int, session: int, now_s: float, share: CopyShare | None = None
    ) -> PlannedFetch | None:
        """A request for all partitions that can be fetched now; None if there are none. `broker_id`
        and `session` are those of this broker; `share` is what the throttle allows."""
        limits = self._limits
        self._held_until_s, max_bytes = 0.0, limits.max_bytes
        positions: dict[Key, FetchPosition] = {}
        following: dict[Key, Following] = {}
        for key, entry in self._entries.items():
            # There is no position while a sync runs that this call has started.
            if entry.paused_until_s <= now_s and (position := entry.following.position()):
                if share is not None and share.is_limited(entry.following):
                    if not share.available_bytes:
                        self._held_until_s = share.opens_at_s
                        continue
                    max_bytes = min(max_bytes, share.available_bytes)
                positions[key], following[key] = position, entry.following
        if not positions:
            return None
        changes = self._session.changes(positions)
        lags = [one.lag for one in following.values()]
        bytes_of = dict(zip(following, limits.partition_bytes(max_bytes, lags), strict=True))
        message = FetchRequest(
            replica_id=broker_id,
            replica_epoch=session,
            max_wait_ms=self._wait_ms(now_s),
            min_bytes=limits.min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=changes.session_id,
            session_epoch=changes.session_epoch,
            topics=_topics(changes, bytes_of),
            forgotten_topics=[
                ForgottenTopic(None, UUID(bytes=topic_id), [index for _, index in partitions])
                for topic_id, partitions in groupby(
                    changes.forgotten, key=lambda forgotten: forgotten[0]
                )
            ],
            rack_id="",
            cluster_id=None,
        )
        return PlannedFetch(message, positions, following)

    def answered(self, requested: PlannedFetch, response: FetchResponse) -> bool:
        """Note the answer to a request. Returns False if it is an error of the whole request; then
        the fetch session is lost, and the next fetch is a full one."""
        if not response.error_code:
            self._session.answered(requested.positions, response.session_id)
            return True
        if response.error_code == ErrorCode.fetch_session_id_not_found:
            self._session.unknown()
        else:
            self._session.lost()
        return False

    @property
    def has_more(self) -> bool:
        """Whether a partition lacks records that its leader has. A sync does not keep it from being
        fetched."""
        return any(
            entry.following.lag and not entry.following.is_over for entry in self._entries.values()
        )

    def lost(self) -> None:
        """The last request got no answer, so the next fetch is a full one."""
        self._session.lost()

    def wakes_at_s(self, now_s: float) -> float | None:
        """When the next pause ends, or the throttle may allow more; None if no partition pauses or
        is held back."""
        pause_ends_s = [
            entry.paused_until_s
            for entry in self._entries.values()
            if entry.paused_until_s > now_s and not entry.following.is_over
        ]
        if self._held_until_s > now_s:
            pause_ends_s.append(self._held_until_s)
        return min(pause_ends_s, default=None)

    def taken(self, following: Following, result: Taken, now_s: float) -> None:
        """A partition's part of an answer was processed with this result: it decides whether the
        partition pauses, and when it is fetched in comparison with others."""
        entry = self._entries.get(following.key)
        if entry is None or entry.following is not following:
            return  # it was dropped or replaced in the meantime
        match result:
            case Taken.FAILED:
                entry.failures += 1
                entry.paused_until_s = now_s + pause_s(entry.failures, self._chance())
            case Taken.PROGRESS:
                entry.failures = 0
                # A partition that got records is fetched last, so that no partition starves.
                self._entries[following.key] = self._entries.pop(following.key)
            case Taken.NOTHING_NEW:
                entry.failures = 0
            # Not to be fetched again in this leader epoch, or an answer to an earlier fetch.
            case Taken.OVER | Taken.IGNORED:
                pass

    def _wait_ms(self, now_s: float) -> int:
        """How long the leader may wait for records: at most until a partition that is not in this
        request can be fetched, because its sync or its pause ends."""
        wait_s = self._limits.wait_ms / 1000
        if any(entry.following.is_syncing for entry in self._entries.values()):
            wait_s = min(wait_s, SYNC_PATIENCE_S)
        wakes_at_s = self.wakes_at_s(now_s)
        if wakes_at_s is not None:
            wait_s = min(wait_s, wakes_at_s - now_s)
        return int(wait_s * 1000)


def _topics(changes: Changes, bytes_of: Mapping[Key, int]) -> list[FetchTopic]:
    """The positions to send, as topics and partitions in the order of fetching, with the bytes to
    ask for of each. A topic may occur more than once, as only neighbours are grouped."""
    return [
        FetchTopic(
            None,
            UUID(bytes=topic_id),
            [
                FetchPartition(
                    key[1],
                    position.current_leader_epoch,
                    position.offset,
                    position.last_fetched_epoch,
                    position.log_start_offset,
                    bytes_of[key],
                )
                for key, position in partitions
            ],
        )
        for topic_id, partitions in groupby(changes.positions.items(), key=lambda item: item[0][0])
    ]
