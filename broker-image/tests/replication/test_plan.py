"""What is asked for, in which order, and when again."""

from dataclasses import dataclass
from random import Random
from typing import cast
from uuid import UUID

import pytest

from chiplog_broker.partitions.follow_steps import FetchPosition
from chiplog_broker.partitions.following import Following, Taken
from chiplog_broker.replication.plan import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SYNC_PATIENCE_S,
    FetchLimits,
    FetchPlan,
    PlannedFetch,
    pause_s,
)
from chiplog_wire.protocol.messages import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)

LIMITS = FetchLimits(wait_ms=500, max_bytes=1000, partition_max_bytes=100)
A, B = UUID(int=1), UUID(int=2)


@dataclass(eq=False)
class Followed:
    """A `Following` as a plan sees it."""

    topic_id: UUID
    index: int
    offset: int = 0
    is_syncing: bool = False
    is_over: bool = False
    lag: int = 0

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic_id.bytes, self.index

    def position(self) -> FetchPosition | None:
        if self.is_syncing or self.is_over:
            return None
        return FetchPosition(self.offset, 3, 4, 0)


def following(one: Followed) -> Following:
    return cast("Following", one)


def plan_of(*followed: Followed) -> FetchPlan:
    plan = FetchPlan(LIMITS, lambda: 1.0)
    for one in reversed(followed):
        plan.put(following(one))
    return plan


def order(requested: PlannedFetch | None) -> list[tuple[UUID | None, int]]:
    assert requested is not None
    return [
        (topic.topic_id, one.partition) for topic in requested.message.topics for one in topic[2]
    ]


def test_a_request_names_the_replica_and_its_epoch() -> None:
    requested = plan_of(Followed(A, 0, 7), Followed(A, 1), Followed(B, 0)).next_request(2, 9, 0)
    assert requested is not None
    message = requested.message
    assert (message.replica_id, message.replica_epoch) == (2, 9)
    assert (message.max_wait_ms, message.min_bytes, message.max_bytes) == (500, 1, 1000)
    assert [topic.topic_id for topic in message.topics] == [A, B]
    assert message.topics[0].partitions[0] == (0, 4, 7, 3, 0, 100)


def test_a_partition_with_records_is_fetched_last() -> None:
    first, second, third = Followed(A, 0), Followed(A, 1), Followed(B, 0)
    plan = plan_of(first, second, third)
    plan.taken(following(first), Taken.PROGRESS, 0)
    plan.taken(following(second), Taken.NOTHING_NEW, 0)
    assert order(plan.next_request(1, 1, 0)) == [(A, 1), (B, 0), (A, 0)]


def test_every_partition_is_answered_if_an_answer_has_space_for_one() -> None:
    followed = {(A, index): Followed(A, index) for index in range(5)}
    plan = plan_of(*followed.values())
    served = []
    for _ in range(10):
        first = order(plan.next_request(1, 1, 0))[0]
        served.append(first)
        plan.taken(following(followed[first]), Taken.PROGRESS, 0)  # type: ignore[index]
    assert sorted(served) == sorted([*followed, *followed])


def test_failures_rest_longer_each_time_and_end_with_a_success() -> None:
    one, other = Followed(A, 0), Followed(A, 1)
    plan = plan_of(one, other)
    now_s = 0.0
    rests = []
    for _ in range(10):
        plan.taken(following(one), Taken.FAILED, now_s)
        assert order(plan.next_request(1, 1, now_s)) == [(A, 1)]
        wakes_at_s = plan.wakes_at_s(now_s)
        assert wakes_at_s is not None
        rests.append(wakes_at_s - now_s)
        now_s = wakes_at_s
        assert (A, 0) in order(plan.next_request(1, 1, now_s))
    assert rests[0] == pytest.approx(FIRST_PAUSE_S)
    assert rests == pytest.approx(sorted(rests))
    assert rests[-1] == pytest.approx(LONGEST_PAUSE_S)
    plan.taken(following(one), Taken.NOTHING_NEW, now_s)
    plan.taken(following(one), Taken.FAILED, now_s)
    assert plan.wakes_at_s(now_s) == pytest.approx(now_s + FIRST_PAUSE_S)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_rests_are_spread(chance: float) -> None:
    assert pause_s(1, chance) == FIRST_PAUSE_S * (0.5 + chance / 2)
    assert pause_s(10_000, chance) <= LONGEST_PAUSE_S


def test_a_sync_that_runs_makes_the_leader_wait_less() -> None:
    plan = plan_of(Followed(A, 0, is_syncing=True), Followed(A, 1))
    requested = plan.next_request(1, 1, 0)
    assert order(requested) == [(A, 1)]
    assert requested is not None
    assert requested.message.max_wait_ms == int(SYNC_PATIENCE_S * 1000)


def test_the_leader_does_not_wait_past_the_end_of_a_rest() -> None:
    one, other = Followed(A, 0), Followed(A, 1)
    plan = plan_of(one, other)
    plan.taken(following(one), Taken.FAILED, 0)
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    assert requested.message.max_wait_ms == int(FIRST_PAUSE_S * 1000)


def test_nothing_to_fetch() -> None:
    one = Followed(A, 0, is_over=True)
    plan = plan_of(one)
    plan.taken(following(one), Taken.FAILED, 0)
    assert plan.next_request(1, 1, 0) is None
    assert plan.wakes_at_s(0) is None
    plan.drop(following(one))
    assert len(plan) == 0


def test_dropping_an_old_leadership_leaves_the_new_one() -> None:
    old, new = Followed(A, 0), Followed(A, 0, 5)
    plan = plan_of(old)
    plan.put(following(new))
    plan.drop(following(old))
    plan.taken(following(old), Taken.FAILED, 0)
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    assert requested.message.topics[0].partitions[0].fetch_offset == 5


def test_only_what_was_requested_is_taken_from_an_answer() -> None:
    one = Followed(A, 0)
    requested = plan_of(one).next_request(1, 1, 0)
    assert requested is not None
    partitions = [FetchPartitionResponse(index, 0, 0) for index in (0, 0, 1)]
    response = FetchResponse(
        [FetchTopicResponse(None, topic_id, partitions) for topic_id in (None, B, A, A)]
    )
    (answer,) = requested.answers(response)
    assert cast("Followed", answer.following) is one
    assert answer.fetched.requested.offset == 0


class Leader:
    """What a leader makes of the requests of one plan."""

    def __init__(self) -> None:
        self.session_id = 0
        self.positions: dict[tuple[UUID | None, int], int] = {}

    def hears(self, requested: PlannedFetch, answered_in: int) -> FetchResponse:
        message = requested.message
        if message.session_epoch == 0:
            self.positions = {}
        for topic in message.topics:
            for one in topic.partitions:
                self.positions[topic.topic_id, one.partition] = one.fetch_offset
        for gone in message.forgotten_topics:
            for index in gone.partitions:
                del self.positions[gone.topic_id, index]
        self.session_id = answered_in
        return FetchResponse([], session_id=answered_in)


@pytest.mark.parametrize("seed", range(30))
def test_a_leader_knows_what_is_requested_however_little_is_said(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - the seed is the test's
    followed = [Followed(topic_id, index) for topic_id in (A, B) for index in range(3)]
    plan, leader, epochs = plan_of(*followed), Leader(), []
    for now_s in range(100):
        for one in random.sample(followed, random.randint(0, 2)):
            one.offset += random.randint(0, 1)
            one.is_syncing = random.random() < 0.3
        requested = plan.next_request(2, 9, now_s)
        if requested is None:
            continue
        epochs.append(requested.message.session_epoch)
        assert requested.in_session == (requested.message.session_epoch > 0)
        match random.randrange(12):
            case 0:
                plan.lost()
            case 1:
                assert not plan.answered(requested, FetchResponse([], error_code=70))
                assert plan.next_request(2, 9, now_s).message[6:8] == (0, 0)  # type: ignore[union-attr]
            case 2:
                leader.hears(requested, 0)
                assert plan.answered(requested, FetchResponse([]))
            case _:
                response = leader.hears(requested, leader.session_id or now_s + 1)
                assert plan.answered(requested, response)
                wanted = {
                    (one.topic_id, one.index): one.offset for one in followed if not one.is_syncing
                }
                assert leader.positions == wanted
                assert set(order_of(requested)) == set(wanted)
    assert max(epochs) > 3


def order_of(requested: PlannedFetch) -> list[tuple[UUID, int]]:
    return [(UUID(bytes=topic_id), index) for topic_id, index in requested.positions]


def test_a_request_in_a_session_says_only_what_changed() -> None:
    moved, still, gone = Followed(A, 0), Followed(A, 1), Followed(B, 0)
    plan = plan_of(moved, still, gone)
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    plan.answered(requested, FetchResponse([], session_id=77))
    moved.offset = 5
    plan.drop(following(gone))
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    assert (requested.message.session_id, requested.message.session_epoch) == (77, 1)
    assert order(requested) == [(A, 0)]
    assert requested.message.forgotten_topics == [(None, B, [0])]
    # An answer may hold what was not said again.
    answer = FetchResponse(
        [FetchTopicResponse(None, A, [FetchPartitionResponse(1, 0, 0)])], session_id=77
    )
    (answered,) = requested.answers(answer)
    assert cast("Followed", answered.following) is still
    plan.answered(requested, answer)
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    assert requested.message[6:10] == (77, 2, [], [])
    # Whoever does not know what was answered says everything, and ends what there was.
    plan.lost()
    requested = plan.next_request(1, 1, 0)
    assert requested is not None
    assert requested.message[6:8] == (77, 0)
    assert len(order(requested)) == 2


@pytest.mark.parametrize(
    ("max_bytes", "lags", "of_each"),
    [
        (10_000, [0], [4_000]),
        (10_000, [0, 0, 0], [3_333, 3_333, 3_333]),
        (10_000, [199, 199, 99], [4_000, 4_000, 2_000]),
        (10_000, [499, 299, 199], [4_000, 3_000, 2_000]),
        (10_000, [900, 0], [4_000, 1_000]),
        (10_000, [0] * 20, [1_000] * 20),
        (2_500, [0], [2_500]),
        (500, [0], [1_000]),
    ],
)
def test_copies_share_an_answer_of_the_same_size_by_what_they_lack(
    max_bytes: int, lags: list[int], of_each: list[int]
) -> None:
    limits = FetchLimits(wait_ms=1, max_bytes=max_bytes, partition_max_bytes=1_000)
    plan = FetchPlan(limits.for_copies(), lambda: 0.0)
    for index, lag in reversed(list(enumerate(lags))):
        plan.put(following(Followed(A, index, lag=lag)))
    requested = plan.next_request(2, 9, 0)
    assert requested is not None
    message = requested.message
    assert message.max_bytes == max_bytes
    asked = [one.max_bytes for topic in message.topics for one in topic.partitions]
    assert asked == of_each
    in_sync = limits.partition_bytes(max_bytes, lags)
    assert in_sync == [1_000] * len(lags), "not for members of the ISR"


@pytest.mark.parametrize(
    ("one", "has_more"),
    [
        (Followed(A, 0, lag=1), True),
        (Followed(A, 0), False),
        (Followed(A, 0, lag=1, is_syncing=True), True),
        (Followed(A, 0, lag=1, is_over=True), False),
    ],
)
def test_more_can_be_fetched_of_a_partition_that_lags_though_it_syncs(
    one: Followed, *, has_more: bool
) -> None:
    assert plan_of(Followed(B, 0, is_syncing=True), one).has_more is has_more
