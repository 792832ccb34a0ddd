"""When a reset is asked for, of whom, and what is told of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.durations import Duration
from chiplog_core.group_watch.resets import (
    AGAIN_MS,
    REFUSED_FOR_GOOD,
    RETRY_MS,
    Tried,
    is_due,
    partitions_of,
    positions_requests,
    reset_digest,
    reset_event,
    reset_request,
    reset_status,
    tried,
)
from chiplog_core.groups.at import At
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.limits import MAX_GROUP_STATUS_PARTITIONS
from chiplog_core.model.actions import EventType
from chiplog_core.model.consumer_group import (
    ConsumerGroup,
    ConsumerGroupSpec,
    Reset,
    ResetStrategy,
    ResetTopic,
    WhileActive,
)
from chiplog_core.model.group_exchange import (
    GroupFacts,
    GroupRefusal,
    LogRefusal,
    PartitionOffset,
    PartitionPosition,
    Positions,
    RecordTime,
    ResetAnswer,
    TopicOffsets,
    TopicPositions,
)
from chiplog_core.model.group_status import (
    ConsumerGroupStatus,
    ResetOffset,
    ResetState,
    ResetStatus,
)
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.references import ClusterRef
from chiplog_core.naming import labels

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
RESET = Reset(id="one", strategy=ResetStrategy.TO_EARLIEST, dry_run=False)
FACTS = GroupFacts(group_id="g")


def group(reset: Reset | None = RESET, generation: int = 1, **meta: Any) -> ConsumerGroup:
    return ConsumerGroup(
        metadata=Metadata(name="g", namespace="team", generation=generation, **meta),
        spec=ConsumerGroupSpec(cluster_ref=ClusterRef(name="demo"), reset=reset),
    )


def told(state: ResetState | None, *, had_members: bool = False) -> Tried:
    return Tried(generation=1, at_ms=0, state=state, had_members=had_members)


def answer(state: ResetState | None, **given: Any) -> ResetAnswer:
    refusal = GroupRefusal.UNAVAILABLE if state is None else None
    return ResetAnswer(group_id="g", id="one", state=state, refusal=refusal, **given)


def moved(count: int = 1) -> tuple[ResetOffset, ...]:
    return tuple(
        ResetOffset(topic="orders", partition=PartitionIndex(index), offset=5, new_offset=Offset(0))
        for index in range(count)
    )


# -- when


def test_a_reset_that_was_never_asked_for_is_due() -> None:
    assert is_due(group(), FACTS, None, 0)
    assert not is_due(group(None), FACTS, None, 0)


def test_nothing_is_due_while_nobody_says_anything_of_the_group() -> None:
    assert not is_due(group(), None, None, 0)
    assert not is_due(group(), replace(FACTS, refusal=GroupRefusal.LOADING), None, 0)


def test_a_paused_object_and_one_that_is_wrong_are_left_alone() -> None:
    assert not is_due(group(annotations={labels.PAUSE: "true"}), FACTS, None, 0)
    wrong = replace(RESET, strategy=ResetStrategy.TO_OFFSET)
    assert not is_due(group(wrong), FACTS, None, 0)


@pytest.mark.parametrize("state", [ResetState.DONE, ResetState.PLANNED])
def test_what_has_ended_is_asked_for_again_only_where_the_manifest_changed(
    state: ResetState,
) -> None:
    assert not is_due(group(), FACTS, told(state), 2**60)
    assert is_due(group(generation=2), FACTS, told(state), 0)


def test_a_plan_that_was_refused_is_tried_again() -> None:
    plan = replace(RESET, dry_run=True)
    refused = told(ResetState.REFUSED, had_members=True)
    crowd = replace(FACTS, member_count=2)
    assert not is_due(group(plan), crowd, refused, RETRY_MS - 1)
    assert is_due(group(plan), crowd, refused, RETRY_MS)
    assert is_due(group(plan), FACTS, refused, 1), "the members are gone"
    assert not is_due(group(plan), FACTS, told(ResetState.REFUSED), RETRY_MS - 1)
    assert is_due(group(plan, generation=2), crowd, refused, 1)


def test_a_reset_that_was_refused_does_not_move_offsets_at_a_later_time() -> None:
    """Not when its members are gone for the moment of a deploy, nor with another manifest that
    asks for the same reset, nor by another process."""
    crowd = replace(FACTS, member_count=2)
    remembered = tried(group(), crowd, answer(ResetState.REFUSED), 0)
    said = reset_status(None, RESET, answer(ResetState.REFUSED, message="2 members"), NOW)
    assert said is not None
    assert said.message == "2 members" + REFUSED_FOR_GOOD
    for generation in (1, 2):
        now = group(generation=generation)
        assert not is_due(now, FACTS, remembered, 10 * RETRY_MS)
        published = replace(now, status=ConsumerGroupStatus(reset=said))
        assert not is_due(published, FACTS, None, 10 * RETRY_MS)
        of_old = replace(now, status=ConsumerGroupStatus(reset=replace(said, wish="")))
        assert not is_due(of_old, FACTS, None, 10 * RETRY_MS)
    for other in (
        replace(RESET, id="two"),
        replace(RESET, while_active=WhileActive.FENCE),
        replace(RESET, strategy=ResetStrategy.TO_LATEST),
    ):
        now = replace(group(other, generation=2), status=ConsumerGroupStatus(reset=said))
        assert is_due(now, crowd, remembered, 1)
        assert is_due(now, crowd, None, 1)


def test_what_is_not_known_is_asked_again_soon() -> None:
    assert not is_due(group(), FACTS, told(None), AGAIN_MS - 1)
    assert is_due(group(), FACTS, told(None), AGAIN_MS)


def test_what_is_remembered_of_an_answer() -> None:
    crowd = replace(FACTS, member_count=2)
    assert tried(group(generation=3), crowd, answer(ResetState.REFUSED), 7) == Tried(
        generation=3,
        at_ms=7,
        state=ResetState.REFUSED,
        had_members=True,
        wish=reset_digest(RESET),
    )
    assert tried(group(), FACTS, None, 7).state is None


# -- of whom


def find_topic(name: str) -> PartitionMapSpec | None:
    """`orders` has three partitions, led by brokers 1, 2 and nobody."""
    if name != "orders":
        return None
    topic_id = TopicId.draw(lambda count: bytes([7] * count))
    leaders = (1, 2, None)
    return PartitionMapSpec(
        cluster="demo",
        topic_name="orders",
        owner_uid="u",
        min_isr=1,
        durability=Durability.FSYNC,
        current=topic_id,
        generations=(
            Generation(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionState(
                        partition=PartitionIndex(index),
                        replicas=(BrokerId(1), BrokerId(2)),
                        isr=(ReplicaRef(BrokerId(1), Session(1)),),
                        leader=None if one is None else ReplicaRef(BrokerId(one), Session(1)),
                        leader_epoch=LeaderEpoch(0),
                        partition_epoch=PartitionEpoch(0),
                    )
                    for index, one in enumerate(leaders)
                ),
            ),
        ),
    )


def test_a_reset_is_of_what_was_committed_or_of_what_it_names() -> None:
    committed = TopicOffsets(
        topic="orders",
        partitions=(
            PartitionOffset(partition=PartitionIndex(0), committed_offset=3),
            PartitionOffset(partition=PartitionIndex(1), committed_offset=-1),
        ),
    )
    facts = replace(FACTS, topics=(committed,))
    assert partitions_of(RESET, facts, find_topic) == [At("orders", 0)]
    named = replace(RESET, topics=(ResetTopic(topic="orders"), ResetTopic(topic="gone")))
    assert partitions_of(named, facts, find_topic) == [At("orders", index) for index in range(3)]
    some = ResetTopic(topic="orders", partitions=(PartitionIndex(2), PartitionIndex(9)))
    assert partitions_of(replace(RESET, topics=(some,)), facts, find_topic) == [At("orders", 2)]


def test_leaders_are_asked_and_of_a_time_where_it_goes_by_one() -> None:
    wanted = [At("orders", index) for index in range(3)] + [At("gone", 0)]
    by_duration = replace(RESET, strategy=ResetStrategy.BY_DURATION, duration=Duration("1s"))

    found = positions_requests(wanted, by_duration, find_topic, 10_000)

    assert {
        broker_id: [
            [(topic.topic, one.partition) for topic in ask.topics for one in topic.partitions]
            for ask in requests
        ]
        for broker_id, requests in found.items()
    } == {1: [[("orders", 0)]], 2: [[("orders", 1)]]}
    assert found[BrokerId(1)][0].since_ms == 9_000
    assert positions_requests(wanted, RESET, find_topic, 1)[BrokerId(1)][0].since_ms is None


def test_the_coordinator_is_told_what_it_needs_of_what_leaders_said() -> None:
    said = PartitionPosition(
        partition=PartitionIndex(0),
        log_start_offset=Offset(1),
        end_offset=Offset(9),
        since_offset=Offset(4),
    )
    more = replace(said, times=(RecordTime(offset=Offset(1), timestamp_ms=5),))
    refused = PartitionPosition(partition=PartitionIndex(1), refusal=LogRefusal.NOT_LEADER)
    answers = [
        Positions(topics=(TopicPositions(topic="orders", partitions=(one,)),), time_ms=0)
        for one in (more, refused)
    ]

    asked = reset_request("g", RESET, answers)

    assert (asked.group_id, asked.reset) == ("g", RESET)
    assert asked.positions == (TopicPositions(topic="orders", partitions=(said, refused)),)


# -- what is told


def test_an_answer_is_told_with_its_time_once() -> None:
    done = reset_status(None, RESET, answer(ResetState.DONE, offsets=moved()), NOW)
    assert done == ResetStatus(
        id="one", state=ResetState.DONE, wish=reset_digest(RESET), time=NOW, offsets=moved()
    )
    again = reset_status(done, RESET, answer(ResetState.DONE, offsets=moved()), LATER)
    assert again is done


def test_a_status_of_an_older_version_is_completed() -> None:
    older = ResetStatus(
        id="one", state=ResetState.DONE, time=NOW, offsets=moved(), message="orders-0: the latest"
    )
    assert is_due(replace(group(), status=ConsumerGroupStatus(reset=older)), FACTS, None, 0)

    found = reset_status(older, RESET, answer(ResetState.DONE, offsets=moved()), LATER)
    assert found == replace(older, wish=reset_digest(RESET))
    known = replace(group(), status=ConsumerGroupStatus(reset=found))
    assert not is_due(known, FACTS, None, 0)
    elsewhere = replace(RESET, strategy=ResetStrategy.TO_LATEST)
    assert is_due(replace(known, spec=group(elsewhere).spec), FACTS, None, 0)


def test_what_was_special_the_first_time_stays_told() -> None:
    first = answer(ResetState.DONE, offsets=moved(), message="orders-0: the latest is used")
    done = reset_status(None, RESET, first, NOW)
    assert reset_status(done, RESET, answer(ResetState.DONE, offsets=moved()), LATER) is done


def test_more_partitions_than_there_is_room_for() -> None:
    offsets = moved(MAX_GROUP_STATUS_PARTITIONS + 1)
    found = reset_status(None, RESET, answer(ResetState.DONE, offsets=offsets), NOW)
    assert found is not None
    assert len(found.offsets) == MAX_GROUP_STATUS_PARTITIONS
    assert found.message == f"{len(found.offsets)} of {len(offsets)} partitions are shown"


@pytest.mark.parametrize("said", [None, answer(None, message="no room")])
def test_what_may_have_run_is_running_until_somebody_knows(said: ResetAnswer | None) -> None:
    found = reset_status(None, RESET, said, NOW)
    assert found is not None
    assert (found.state, found.time) == (ResetState.RUNNING, NOW)
    assert found.message.startswith("waiting for the group's coordinator")
    assert ("no room" in found.message) is (said is not None)
    assert reset_status(found, RESET, said, LATER) is found
    plan = replace(RESET, dry_run=True)
    assert reset_status(None, plan, said, NOW) is None, "a plan changes nothing"
    done = ResetStatus(id="one", state=ResetState.DONE)
    assert reset_status(done, RESET, said, NOW) is None, "it stays done"


def test_another_reset_takes_the_place_of_the_last_one() -> None:
    before = ResetStatus(id="zero", state=ResetState.DONE, time=NOW)
    found = reset_status(before, RESET, answer(ResetState.REFUSED, message="why"), LATER)
    assert found == ResetStatus(
        id="one",
        state=ResetState.REFUSED,
        message="why" + REFUSED_FOR_GOOD,
        wish=reset_digest(RESET),
        time=LATER,
    )


def test_events_tell_how_it_ended_and_not_twice() -> None:
    done = ResetStatus(id="one", state=ResetState.DONE, offsets=moved(2))
    refused = ResetStatus(id="one", state=ResetState.REFUSED, message="why")
    event = reset_event(group(), None, done)
    assert event is not None
    assert (event.type, event.reason) == (EventType.NORMAL, "OffsetsReset")
    assert event.message == ("reset one has moved the offsets of 2 partitions as requested")
    moved_in = replace(done, message="orders-0: 99 is higher than the latest offset, so 7 is used")
    event = reset_event(group(), None, moved_in)
    assert event is not None
    assert event.message == f"reset one has moved the offsets of 2 partitions: {moved_in.message}"
    assert reset_event(group(), done, done) is None
    assert reset_event(group(), done, replace(done, message="other")) is None
    event = reset_event(group(), None, refused)
    assert event is not None
    assert (event.type, event.reason, event.message) == (
        EventType.WARNING,
        "ResetRefused",
        "reset one: why",
    )
    assert reset_event(group(), refused, refused) is None
    assert reset_event(group(), refused, replace(refused, message="other")) is not None
    assert reset_event(group(), None, ResetStatus(id="one", state=ResetState.PLANNED)) is None
    assert reset_event(group(), None, None) is None
