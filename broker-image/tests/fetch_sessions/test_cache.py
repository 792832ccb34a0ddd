"""Which sessions a broker remembers, for whom, and which must go (KIP-227)."""

from collections.abc import Iterator
from itertools import count
from uuid import UUID

import pytest

from chiplog_broker.fetch_sessions.cache import STALE_AFTER_S, FetchSessionCache
from chiplog_broker.fetch_sessions.session import LAST_EPOCH, FetchSession, Owner
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)

TOPIC = UUID(int=7)
ALICE = Owner("User:alice", is_internal=False, replica_id=-1, replica_epoch=-1)
BOB = ALICE._replace(principal="User:bob")
FOLLOWER = Owner("User:chiplog", is_internal=True, replica_id=2, replica_epoch=9)
OTHER_FOLLOWER = FOLLOWER._replace(replica_id=3)


class Sessions:
    """A cache with a clock, and ids that count."""

    def __init__(self, slots: int = 3, ids: Iterator[int] | None = None, **bounds: int) -> None:
        numbers = ids or count(1)
        self.cache = FetchSessionCache(slots, lambda: next(numbers), **bounds)
        self.now_s = 0.0

    def open(self, owner: Owner = ALICE, partitions: int = 1, *, ids: bool = True) -> int:
        asked = request(0, 0, range(partitions))
        answers = [FetchPartitionResponse(index, 0, 5) for index in range(partitions)]
        response = FetchResponse([FetchTopicResponse(None, TOPIC, answers)])
        return self.cache.open(owner, asked, response, self.now_s, uses_topic_ids=ids)

    def resume(
        self,
        session_id: int,
        epoch: int = 1,
        *,
        owner: Owner = ALICE,
        added: range = range(0),
        forgotten: range = range(0),
        ids: bool = True,
    ) -> FetchSession | ErrorCode:
        asked = request(session_id, epoch, added, forgotten)
        return self.cache.resume(owner, asked, self.now_s, uses_topic_ids=ids)

    def is_known(self, session_id: int, owner: Owner = ALICE) -> bool:
        return self.resume(session_id, -2, owner=owner) is ErrorCode.invalid_fetch_session_epoch


def request(
    session_id: int, epoch: int, partitions: range, forgotten: range = range(0)
) -> FetchRequest:
    wanted = [FetchPartition(index, -1, 5, -1, -1, 100) for index in partitions]
    return FetchRequest(
        replica_id=-1,
        replica_epoch=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(None, TOPIC, wanted)] if wanted else [],
        forgotten_topics=[ForgottenTopic(None, TOPIC, list(forgotten))] if forgotten else [],
        rack_id="",
        cluster_id=None,
    )


def size_of(session: FetchSession | ErrorCode) -> int:
    assert isinstance(session, FetchSession)
    return session.size


def test_what_a_request_does_not_name_stays() -> None:
    sessions = Sessions()
    session_id = sessions.open(partitions=3)
    assert size_of(sessions.resume(session_id, 1)) == 3
    session = sessions.resume(session_id, 2, added=range(2, 5), forgotten=range(1))
    assert size_of(session) == 4
    assert sessions.cache.partitions == 4
    # Forgotten and not there, or there and not known: neither is a mistake.
    assert size_of(sessions.resume(session_id, 3, forgotten=range(50, 60))) == 4


def test_a_session_ends_with_its_last_partition() -> None:
    sessions = Sessions()
    session_id = sessions.open(partitions=2)
    assert size_of(sessions.resume(session_id, 1, forgotten=range(2))) == 0
    assert len(sessions.cache) == sessions.cache.partitions == 0
    assert not sessions.is_known(session_id)


def test_requests_come_in_order_and_the_count_goes_round() -> None:
    sessions = Sessions()
    session_id = sessions.open()
    for epoch in (2, 5, -5, LAST_EPOCH):
        assert sessions.resume(session_id, epoch) is ErrorCode.invalid_fetch_session_epoch
    session = sessions.resume(session_id, 1)
    assert sessions.resume(session_id, 1) is ErrorCode.invalid_fetch_session_epoch
    assert isinstance(session, FetchSession)
    session.epoch = LAST_EPOCH
    assert isinstance(sessions.resume(session_id, LAST_EPOCH), FetchSession)
    assert isinstance(sessions.resume(session_id, 1), FetchSession)


def test_names_and_ids_do_not_mix() -> None:
    sessions = Sessions()
    by_id, by_name = sessions.open(), sessions.open(ids=False)
    mixed = ErrorCode.fetch_session_topic_id_error
    assert sessions.resume(by_id, ids=False) is mixed
    assert sessions.resume(by_name, ids=True) is mixed
    assert isinstance(sessions.resume(by_name, ids=False), FetchSession)


@pytest.mark.parametrize("stranger", [BOB, FOLLOWER, ALICE._replace(is_internal=True)])
def test_an_id_opens_nothing_for_others(stranger: Owner) -> None:
    sessions = Sessions()
    session_id = sessions.open()
    unknown = ErrorCode.fetch_session_id_not_found
    assert sessions.resume(session_id, owner=stranger) is unknown
    sessions.cache.close(session_id, stranger)
    assert sessions.is_known(session_id)
    sessions.cache.close(session_id, ALICE)
    assert not sessions.is_known(session_id)


def test_a_follower_in_a_new_session_of_its_own_starts_again() -> None:
    sessions = Sessions()
    session_id = sessions.open(FOLLOWER)
    again = FOLLOWER._replace(replica_epoch=10)
    assert not sessions.is_known(session_id, again)
    assert sessions.is_known(session_id, FOLLOWER)


def test_ids_are_new_and_not_zero() -> None:
    sessions = Sessions(ids=iter([0, 4, 4, 0, 4, 9]))
    assert (sessions.open(), sessions.open()) == (4, 9)


def test_nobody_young_makes_room_for_a_consumer() -> None:
    sessions = Sessions(slots=2)
    sessions.open(partitions=1)
    sessions.open(partitions=1)
    sessions.now_s = STALE_AFTER_S
    assert sessions.open(partitions=100) == 0
    assert sessions.cache.evictions == 0


def test_the_smaller_one_that_is_not_young_makes_room_for_a_larger_one() -> None:
    sessions = Sessions(slots=2)
    small, large = sessions.open(partitions=2), sessions.open(partitions=3)
    sessions.now_s = STALE_AFTER_S / 2
    sessions.resume(small)
    sessions.resume(large)
    sessions.now_s = STALE_AFTER_S * 1.4  # both were used since
    assert sessions.open(BOB, partitions=2) == 0
    assert sessions.open(BOB, partitions=3) != 0
    assert not sessions.is_known(small)
    assert sessions.is_known(large)
    assert (len(sessions.cache), sessions.cache.evictions) == (2, 1)


def test_what_was_not_used_for_long_goes_first_whatever_its_size() -> None:
    sessions = Sessions(slots=2)
    old = sessions.open(FOLLOWER, partitions=1000)
    sessions.now_s = STALE_AFTER_S + 1
    young = sessions.open(BOB, partitions=1)
    assert sessions.open(ALICE, partitions=1) != 0
    assert not sessions.is_known(old, FOLLOWER)
    assert sessions.is_known(young, BOB)


def test_consumers_make_room_for_followers_and_not_the_other_way_round() -> None:
    sessions = Sessions(slots=2)
    sessions.open(partitions=1000)
    sessions.open(partitions=2000)
    assert sessions.open(FOLLOWER, partitions=1) != 0
    assert sessions.open(OTHER_FOLLOWER, partitions=1) != 0
    assert sessions.open(FOLLOWER, partitions=50) == 0, "young ones of the same kind"
    assert sessions.open(ALICE, partitions=5000) == 0


def test_partitions_are_bounded_in_one_session_and_in_all() -> None:
    sessions = Sessions(slots=9, max_partitions=10, max_session_partitions=6)
    assert sessions.open(partitions=7) == 0
    first = sessions.open(partitions=5)
    second = sessions.open(partitions=5)
    assert sessions.open(partitions=1) == 0, "there is no room, and both are young"
    # Growing counts like beginning anew.
    unknown = ErrorCode.fetch_session_id_not_found
    assert sessions.resume(first, 1, added=range(5, 6)) is unknown
    assert sessions.cache.partitions == 5
    assert sessions.resume(second, 1, added=range(5, 7)) is unknown
    assert len(sessions.cache) == sessions.cache.partitions == 0
    # A follower's makes as much room as it needs.
    for _ in range(5):
        sessions.open(partitions=2)
    assert sessions.open(FOLLOWER, partitions=5) != 0
    assert sessions.cache.partitions == 9
    assert sessions.cache.evictions == 3


def test_without_slots_there_are_no_sessions() -> None:
    assert Sessions(slots=0).open() == 0
    assert Sessions(slots=0).open(FOLLOWER) == 0


def test_a_session_ends_with_the_connection_that_used_it_last() -> None:
    sessions = Sessions()
    session_id = sessions.open()
    first, second = object(), object()
    for holder in (first, second):
        sessions.cache.set_holder(session_id, holder)
    sessions.cache.holder_left(session_id, first)
    assert sessions.is_known(session_id)
    sessions.cache.holder_left(session_id, second)
    assert not sessions.is_known(session_id)
    sessions.cache.holder_left(session_id, second)
    sessions.cache.set_holder(session_id, first)


def test_nothing_is_left_of_a_session_that_went() -> None:
    sessions = Sessions(slots=1)
    session = sessions.resume(sessions.open(partitions=2))
    assert isinstance(session, FetchSession)
    watchers: dict[object, None] = {}
    for entry in list(session.maybe_changed):
        entry.watch(watchers)
    assert len(watchers) == 2
    sessions.cache.close(session.id, ALICE)
    assert not watchers
    # Whoever still holds a part of it brings nothing back.
    entry.watch(watchers)
    entry.changed()
    assert not watchers
    assert not session.maybe_changed
