"""How many consumers a group is to have."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.durations import Duration
from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.scaling import (
    SETTLE_MS,
    Facts,
    Memory,
    Step,
    known_lag,
    known_partitions,
    step,
)
from chiplog_core.groups.at import At
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.consumer_group import DeploymentRef, Scale
from chiplog_core.model.group_exchange import GroupFacts, TopicOffsets
from chiplog_core.model.group_status import NO_COMMIT, PartitionLag
from tests.group_watch.cluster import topic_map

COOLDOWN_MS = 60_000
SCALE = Scale(
    deployment_ref=DeploymentRef(name="consumers"),
    min=1,
    max=10,
    lag_per_replica=100,
    cooldown=Duration("1m"),
)


@dataclass
class Deployment:
    """One that is scaled, with a clock."""

    replicas: int = 1
    partitions: int | None = 6
    scale: Scale = SCALE
    now_ms: int = 1_000_000
    memory: Memory | None = None

    def look(self, lag: int | None, after_ms: int = 1_000) -> Step:
        self.now_ms += after_ms
        facts = Facts(replicas=self.replicas, partitions=self.partitions, lag=lag)
        found = step(self.scale, facts, self.memory, self.now_ms)
        self.replicas, self.memory = found.replicas, found.memory
        return found


@pytest.mark.parametrize(
    ("lag", "replicas"), [(0, 1), (-1, 1), (100, 1), (101, 2), (350, 4), (600, 6), (10**9, 6)]
)
def test_more_at_once_but_never_more_than_partitions(lag: int, replicas: int) -> None:
    assert Deployment().look(lag).replicas == replicas


def test_never_more_than_max() -> None:
    assert Deployment(partitions=50).look(10**9).replicas == SCALE.max


def test_what_was_begun_has_to_settle_first() -> None:
    one = Deployment()
    assert one.look(250).replicas == 3
    assert one.look(500, SETTLE_MS - 1).replicas == 3
    assert one.look(500, 1).replicas == 5


def test_fewer_only_after_a_cool_down_in_which_nothing_asked_for_more() -> None:
    one = Deployment()
    one.look(600)
    assert one.replicas == 6
    assert one.look(0, COOLDOWN_MS - 1).replicas == 6
    assert one.look(300, 0).replicas == 6
    assert one.look(0, 1).replicas == 3, "as many as somebody asked for within the cool-down"
    assert one.look(0, COOLDOWN_MS - 1).replicas == 3
    assert one.look(0, 1).replicas == 1


def test_a_new_operator_knows_nothing_of_before() -> None:
    one = Deployment(replicas=6)
    assert one.look(0).replicas == 6
    assert one.look(0, COOLDOWN_MS - 1).replicas == 6
    assert one.look(0, 1).replicas == 1


def test_an_unknown_lag_changes_nothing_and_may_have_asked_for_anything() -> None:
    one = Deployment(replicas=4)
    one.look(0)
    assert one.look(None, 2 * COOLDOWN_MS).replicas == 4
    assert one.look(0, 1_000).replicas == 4
    assert one.look(0, COOLDOWN_MS).replicas == 1


def test_an_unknown_number_of_partitions_changes_nothing() -> None:
    one = Deployment(replicas=4, partitions=None)
    assert one.look(10**9).replicas == 4
    assert one.look(0, 10 * COOLDOWN_MS).replicas == 4


def test_one_consumer_begins_a_group_that_nobody_knows() -> None:
    one = Deployment(replicas=0, partitions=None, scale=replace(SCALE, min=3))
    assert one.look(None).replicas == 1


def test_a_group_may_be_scaled_to_nobody() -> None:
    one = Deployment(scale=replace(SCALE, min=0))
    one.look(0)
    assert one.look(0, COOLDOWN_MS).replicas == 0
    assert one.look(1, SETTLE_MS).replicas == 1


@pytest.mark.parametrize(
    ("replicas", "partitions", "scale", "after"),
    [
        (9, 6, SCALE, 6),
        (12, 50, SCALE, 10),
        (1, 6, replace(SCALE, min=4), 4),
        (1, 3, replace(SCALE, min=4), 3),
    ],
)
def test_bounds_hold_at_once_whoever_scaled(
    replicas: int, partitions: int, scale: Scale, after: int
) -> None:
    one = Deployment(replicas=replicas, partitions=partitions, scale=scale)
    assert one.look(0).replicas == after


def test_who_else_changes_them_is_waited_for_too() -> None:
    one = Deployment()
    one.look(0)
    one.replicas = 2
    one.look(150)
    assert one.look(500, SETTLE_MS - 1).replicas == 2
    assert one.look(500, 1).replicas == 5


LOOKS = st.lists(
    st.tuples(st.none() | st.integers(-1, 5_000), st.integers(0, 2 * COOLDOWN_MS)), max_size=40
)


@given(LOOKS, st.integers(0, 20), st.integers(1, 12), st.integers(0, 10))
def test_it_keeps_its_bounds_and_its_pauses(
    looks: list[tuple[int | None, int]], replicas: int, partitions: int, least: int
) -> None:
    one = Deployment(replicas, partitions, replace(SCALE, min=least))
    raised_ms = lowered_ms = None
    for number, (lag, after_ms) in enumerate(looks):
        before = one.replicas
        found = one.look(lag, after_ms)
        most = min(SCALE.max, partitions)
        assert min(least, most) <= found.replicas <= most
        if number and found.replicas > before:
            assert raised_ms is None or one.now_ms - raised_ms >= SETTLE_MS
        if number and found.replicas < before:
            changed_ms = max(raised_ms or 0, lowered_ms or 0)
            assert one.now_ms - changed_ms >= COOLDOWN_MS
        if found.replicas > before:
            raised_ms = one.now_ms
        elif found.replicas < before:
            lowered_ms = one.now_ms
        assert found.memory is not None
        assert len(found.memory.needed) <= most + 1


def topics(*names: str) -> GroupFacts:
    return GroupFacts(
        group_id="billing",
        topics=tuple(TopicOffsets(topic=name, partitions=()) for name in names),
    )


def test_the_partitions_of_all_topics_of_a_group_count() -> None:
    maps = {"orders": topic_map("orders", [1, 2, 3]), "logs": topic_map("logs", [1, None])}

    assert known_partitions(topics("orders"), maps.get) == 3
    assert known_partitions(topics("orders", "logs"), maps.get) == 5


def test_the_partitions_of_a_group_are_unknown_where_one_of_its_topics_is() -> None:
    maps = {"orders": topic_map("orders", [1, 2, 3])}

    assert known_partitions(topics("orders", "gone"), maps.get) is None
    assert known_partitions(topics(), maps.get) is None


def lag(partition: int, records: int) -> PartitionLag:
    return PartitionLag(
        topic="orders",
        partition=PartitionIndex(partition),
        committed_offset=records,
        end_offset=Offset(0),
        lag=records,
        lag_seconds=0,
    )


@pytest.mark.parametrize(
    ("lags", "known"),
    [
        (None, None),
        (Lags(), None),
        (Lags(partitions=(lag(0, 5), lag(1, 7))), 12),
        (Lags(partitions=(lag(0, 5), lag(1, NO_COMMIT))), 5),
        (Lags(partitions=(lag(0, NO_COMMIT),)), 0),
        (Lags(partitions=(lag(0, 5),), unreachable=frozenset({At("orders", 1)})), None),
    ],
)
def test_a_lag_counts_only_where_every_leader_has_answered(
    lags: Lags | None, known: int | None
) -> None:
    assert known_lag(lags) == known
