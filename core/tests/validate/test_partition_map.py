"""What must hold of every write of a PartitionMap: each rule is broken once."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.ids import ReplicaRef as Ref
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import (
    Generation,
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
    Tombstone,
)
from chiplog_core.model.reassignment import Leftover, leftovers_on
from chiplog_core.validate.partition_map import broken_rules, check_change, check_map

OLD, NEW = TopicId(b"\x01" * 16), TopicId(b"\x02" * 16)
ONE, TWO, THREE, FOUR = (Ref.from_text(f"{number}@5") for number in (1, 2, 3, 4))
EIGHT, TEN = LeaderEpoch(8), PartitionEpoch(10)


def state(partition: int = 0, **changes: Any) -> PartitionState:
    sound = PartitionState(
        partition=PartitionIndex(partition),
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
        isr=(ONE, TWO, THREE),
        leader=ONE,
        leader_epoch=LeaderEpoch(7),
        partition_epoch=PartitionEpoch(9),
    )
    return replace(sound, **changes)


def spec(*partitions: PartitionState, **changes: Any) -> PartitionMapSpec:
    generation = Generation(topic_id=OLD, partitions=partitions or (state(),))
    sound = PartitionMapSpec(
        cluster="demo",
        topic_name="orders",
        current=OLD,
        min_isr=2,
        durability=Durability.FSYNC,
        generations=(generation,),
    )
    return replace(sound, **changes)


def a_map(of: PartitionMapSpec, version: str = "1") -> PartitionMap:
    return PartitionMap(
        metadata=Metadata(name="demo.orders", namespace="shop", resource_version=version), spec=of
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (state(leader=Ref.from_text("1@6")), "the leader 1@6 is not in the ISR"),
        (state(isr=(ONE, TWO, Ref.from_text("2@6"))), "the ISR names a broker twice"),
        (state(isr=(ONE, Ref.from_text("4@5"))), "the ISR names a broker that holds no replica"),
    ],
)
def test_a_state_that_is_never_right(wrong: PartitionState, said: str) -> None:
    assert list(check_map(spec(wrong))) == [f"partition 0: {said}"]
    assert said in str(broken_rules(None, a_map(spec(wrong), version="")))
    assert f"partition 0: {said}" in list(check_change(spec(), spec(wrong)))
    assert list(check_change(spec(wrong), spec(wrong, state(1)))) == [], "it was so before"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (state(leader_epoch=LeaderEpoch(6)), "the leader epoch falls from 7 to 6"),
        (state(partition_epoch=PartitionEpoch(8)), "the partition epoch falls from 9 to 8"),
        (
            state(leader=TWO, partition_epoch=PartitionEpoch(10)),
            "the leader changes and keeps the leader epoch 7",
        ),
        (
            state(leader=None, partition_epoch=PartitionEpoch(10)),
            "the leader changes and keeps the leader epoch 7",
        ),
        (
            state(
                replicas=(BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4)),
                partition_epoch=PartitionEpoch(10),
            ),
            "broker 4 holds a replica that no reassignment added",
        ),
        (
            state(
                replicas=(BrokerId(1), BrokerId(2)),
                isr=(ONE, TWO),
                leader_epoch=EIGHT,
                partition_epoch=TEN,
            ),
            "it forgets broker 3, which may still hold its data",
        ),
        (
            state(
                replicas=(BrokerId(1), BrokerId(2)),
                isr=(ONE, TWO),
                leftovers=leftovers_on((BrokerId(3),)),
                partition_epoch=TEN,
            ),
            "it loses a replica and keeps its leader epoch 7",
        ),
        (
            state(
                replicas=(BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4)),
                adding=(BrokerId(4),),
                isr=(ONE, TWO, THREE, FOUR),
                partition_epoch=TEN,
            ),
            "broker 4 is in sync before it could have fetched",
        ),
        (state(isr=(ONE, TWO)), "it changes and keeps its partition epoch 9"),
        (
            state(isr=(ONE,), partition_epoch=PartitionEpoch(10)),
            "the ISR falls from 3 to 1, below 2",
        ),
        (state(leader_epoch=LeaderEpoch(8)), "it changes and keeps its partition epoch 9"),
        (
            state(unclean_epoch=LeaderEpoch(7), partition_epoch=PartitionEpoch(10)),
            "the epoch of its last unclean election changes from None to 7",
        ),
    ],
)
def test_a_step_that_is_never_right(wrong: PartitionState, said: str) -> None:
    assert list(check_change(spec(), spec(wrong))) == [f"partition 0: {said}"]


@pytest.mark.parametrize(
    "right",
    [
        state(),
        state(isr=(ONE, TWO), partition_epoch=PartitionEpoch(10)),
        state(leader=TWO, leader_epoch=LeaderEpoch(8), partition_epoch=PartitionEpoch(10)),
        state(replicas=(BrokerId(2), BrokerId(1), BrokerId(3)), partition_epoch=PartitionEpoch(10)),
    ],
)
def test_a_step_that_may_be_taken(right: PartitionState) -> None:
    assert list(check_change(spec(), spec(right))) == []


PART_LEFT = state(leftovers=(Leftover(broker=BrokerId(4)),))
REMOVABLE = (Leftover(broker=BrokerId(4), removable_since=TEN),)
ALL_FOUR = (BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4))


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            PART_LEFT,
            state(leftovers=REMOVABLE, isr=(ONE, TWO), partition_epoch=TEN),
            "broker 4 may delete its data without a proof",
        ),
        (
            state(),
            state(leftovers=REMOVABLE, partition_epoch=TEN),
            "broker 4 may delete its data without a proof",
        ),
        (
            PART_LEFT,
            state(partition_epoch=TEN),
            "it forgets broker 4, which may still hold its data",
        ),
        (
            state(leftovers=REMOVABLE, partition_epoch=TEN),
            state(replicas=ALL_FOUR, adding=ALL_FOUR[3:], partition_epoch=PartitionEpoch(11)),
            "broker 4 gets a replica while it deletes the last one",
        ),
        (
            state(replicas=ALL_FOUR, isr=(ONE, TWO, THREE, FOUR)),
            state(
                isr=(ONE, TWO),
                leftovers=leftovers_on(ALL_FOUR[3:]),
                leader_epoch=EIGHT,
                partition_epoch=TEN,
            ),
            "it loses broker 4 before all other replicas are in sync",
        ),
        (PART_LEFT, state(leftovers=REMOVABLE, partition_epoch=TEN), ""),
        (
            state(leftovers=REMOVABLE, partition_epoch=TEN),
            state(partition_epoch=PartitionEpoch(11)),
            "",
        ),
        (PART_LEFT, state(replicas=ALL_FOUR, adding=ALL_FOUR[3:], partition_epoch=TEN), ""),
    ],
)
def test_data_of_a_moved_replica_goes_by_a_proof_only(
    was: PartitionState, now: PartitionState, said: str
) -> None:
    assert list(check_change(spec(was), spec(now))) == ([f"partition 0: {said}"] if said else [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (state(replicas=(1, 2, 3, 3)), "a broker holds two replicas"),
        (state(adding=(3,), removing=(3,)), "a replica is both added and removed"),
        (state(adding=(4,)), "a reassignment names a broker that holds no replica"),
        (state(removing=(1, 2, 3)), "a reassignment removes all replicas"),
        (state(leftovers=leftovers_on((BrokerId(3),))), "a replica is also a leftover"),
    ],
)
def test_a_move_that_is_never_right(wrong: PartitionState, said: str) -> None:
    assert list(check_map(spec(wrong))) == [f"partition 0: {said}"]


def test_where_reports_were_wanted_the_isr_may_be_any() -> None:
    asked = state(reports_wanted=True)
    alone = state(isr=(ONE,), partition_epoch=PartitionEpoch(10))
    assert list(check_change(spec(asked), spec(alone))) == []


def test_where_reports_were_wanted_there_may_be_more_replicas_but_not_fewer() -> None:
    asked = state(reports_wanted=True)
    four = (BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4))
    more, fewer = (
        state(replicas=replicas, isr=(TWO,), leader=None, leader_epoch=EIGHT, partition_epoch=TEN)
        for replicas in (four, four[:2])
    )
    assert list(check_change(spec(asked), spec(more))) == []
    assert list(check_change(spec(asked), spec(fewer))) == [
        "partition 0: it forgets broker 3, which may still hold its data"
    ]


@pytest.mark.parametrize(
    ("was", "isr"), [((ONE, TWO), (THREE, FOUR)), ((ONE,), (FOUR,)), ((ONE, TWO), (ONE, FOUR))]
)
def test_a_leader_was_in_sync_or_was_admitted_before(
    was: tuple[Ref, ...], isr: tuple[Ref, ...]
) -> None:
    replicas = (BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4))
    before = state(replicas=replicas, isr=was)
    after = state(replicas=replicas, isr=isr, leader=isr[-1], leader_epoch=EIGHT)
    at_once = replace(after, partition_epoch=TEN)
    usurped = [f"partition 0: the leader {isr[-1]} comes from outside the ISR"]
    assert list(check_change(spec(before), spec(at_once))) == usurped
    admitted_before = replace(after, partition_epoch=PartitionEpoch(11))
    assert list(check_change(spec(before), spec(admitted_before))) == []
    asked = replace(before, reports_wanted=True)
    assert list(check_change(spec(asked), spec(at_once))) == []


def test_a_leader_that_goes_on_in_its_next_session_was_in_sync() -> None:
    again = Ref.from_text("1@6")
    after = state(isr=(again, TWO, THREE), leader=again, leader_epoch=EIGHT, partition_epoch=TEN)
    assert list(check_change(spec(), spec(after))) == []


def test_reports_settle_the_epoch_of_the_last_unclean_election_which_never_falls() -> None:
    asked = state(reports_wanted=True, unclean_epoch=LeaderEpoch(5))
    for unclean, is_right in ((EIGHT, True), (LeaderEpoch(4), False), (None, False)):
        after = state(unclean_epoch=unclean, leader_epoch=EIGHT, partition_epoch=TEN)
        assert (list(check_change(spec(asked), spec(after))) == []) is is_right


def test_what_was_wrong_before_does_not_keep_a_partition_from_its_election() -> None:
    by_hand = state(isr=(ONE, TWO, FOUR))
    elected = state(isr=(TWO, FOUR), leader=TWO, leader_epoch=EIGHT, partition_epoch=TEN)
    assert list(check_change(spec(by_hand), spec(elected))) == []
    assert list(check_change(spec(), spec(elected))) != []


def test_a_floor_counts_as_it_is_and_as_it_will_be() -> None:
    two = state(isr=(ONE, TWO), partition_epoch=PartitionEpoch(10))
    assert list(check_change(spec(min_isr=3), spec(two, min_isr=2))) == []
    assert list(check_change(spec(min_isr=2), spec(two, min_isr=3))) == []
    assert list(check_change(spec(min_isr=3), spec(two, min_isr=3))) != []


def test_partitions_and_ids_go_with_a_tombstone_only() -> None:
    before = spec(state(0), state(1))
    grave = (Tombstone(topic_id=OLD, brokers=(BrokerId(1),)),)
    missing = "partition 1 is gone without a tombstone"
    assert list(check_change(before, spec(state(0)))) == [missing]
    assert list(check_change(before, spec(state(0), tombstones=grave))) == [
        f"topic id {OLD} gets a tombstone and keeps its partitions",
        missing,
    ]
    both = spec(tombstones=grave)
    assert list(check_change(both, spec(state(0, partition_epoch=TEN), tombstones=grave))) == []
    gone = spec(generations=(), current=None)
    assert list(check_change(before, gone)) == [f"topic id {OLD} is gone without a tombstone"]
    buried = replace(gone, tombstones=grave)
    assert list(check_change(before, buried)) == []
    assert list(check_change(buried, before)) == [
        f"topic id {OLD} is back although it has a tombstone"
    ]
    named_again = spec(generations=(Generation(topic_id=NEW, partitions=(state(),)),), current=NEW)
    assert list(check_change(buried, named_again)) == []


@pytest.mark.parametrize("where", ["a new id", "a new partition"])
def test_what_is_added_is_looked_at_too(where: str) -> None:
    wrong = state(1, leader=Ref.from_text("1@6"))
    after = spec(state(), wrong)
    if where == "a new id":
        old, new = spec().generations[0], Generation(topic_id=NEW, partitions=(wrong,))
        after = spec(generations=(old, new))
    assert list(check_change(spec(), after)) == ["partition 1: the leader 1@6 is not in the ISR"]


def test_a_write_says_which_version_it_replaces() -> None:
    one, grown = a_map(spec()), spec(state(0), state(1))
    assert broken_rules(one, a_map(grown)) == ()
    assert broken_rules(one, a_map(grown, version="2")) == (
        "the new map was decided from another version than the one that it replaces",
    )
    assert broken_rules(None, a_map(grown)) == (
        "the new map has a resourceVersion, but there is no map that it replaces",
    )
    assert broken_rules(None, a_map(grown, version="")) == ()


def test_a_message_names_a_few_rules() -> None:
    wrong = [state(number, leader=None, isr=(ONE, ONE)) for number in range(20)]
    assert len(broken_rules(None, a_map(spec(*wrong), version=""))) == 5
