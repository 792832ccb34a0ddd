"""R2 and R4, partition by partition, for any number of replicas."""

from dataclasses import replace

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState
from chiplog_core.planner.leadership.elections import changed, elect, elect_all
from tests.planner.objects import CLUSTER, NOW, ref

TOPIC = TopicId((7).to_bytes(16, "big"))


def broker_state(
    text: str,
    process_state: ProcessState = ProcessState.ALIVE,
    *,
    leaving: bool = False,
    process_since: int | None = None,
    intact_since: int = 1,
    storage_since: int = 1,
) -> BrokerState:
    """A process that was started for the session it has, unless said otherwise."""
    session = ref(text).session
    return BrokerState(
        ref=ref(text),
        process_state=process_state,
        may_lead=process_state is ProcessState.ALIVE,
        is_leaving=leaving,
        is_in_session=True,
        process_since=Session(session if process_since is None else process_since),
        storage_since=Session(storage_since),
        intact_since=Session(intact_since),
        rack=None,
        is_retired=False,
    )


def broker_states(*all_of_them: BrokerState, damaged: int | None = None) -> BrokerStates:
    of = {one.ref.broker_id: one for one in all_of_them if one.ref is not None}
    usual = (one.ref for one in of.values() if one.may_lead and not one.is_leaving)
    broken = set() if damaged is None else {(BrokerId(damaged), TOPIC, PartitionIndex(0))}
    return BrokerStates(of, frozenset(filter(None, usual)), frozenset(broken))


def state(isr: str, leader: str | None, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(
        partition=PartitionIndex(0),
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(ref, isr.split())),
        leader=None if leader is None else ref(leader),
        leader_epoch=LeaderEpoch(5),
        partition_epoch=PartitionEpoch(9),
    )


def shown(after: PartitionState) -> tuple[str | None, str, int, int]:
    leader = None if after.leader is None else str(after.leader)
    return leader, " ".join(map(str, after.isr)), after.leader_epoch, after.partition_epoch


GONE, UNKNOWN = ProcessState.GONE, ProcessState.UNKNOWN


def test_nothing_changes_while_all_is_well() -> None:
    before = state("1@1 2@1 3@1", "2@1")

    assert (
        elect(
            before,
            TOPIC,
            2,
            broker_states(broker_state("1@1"), broker_state("2@1"), broker_state("3@1")),
        )
        is before
    )


@pytest.mark.parametrize(
    ("isr", "leader", "brokers", "expected"),
    [
        pytest.param(
            "1@1 2@1 3@1",
            "1@1",
            [broker_state("1@1", GONE), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "2@1 3@1", 6, 10),
            id="the next replica follows a dead leader, which leaves the ISR",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "1@1",
            [broker_state("1@1"), broker_state("2@1", GONE), broker_state("3@1")],
            ("1@1", "1@1 3@1", 5, 10),
            id="a dead follower leaves the ISR under the same leader epoch",
        ),
        pytest.param(
            "1@1 2@1",
            "1@1",
            [broker_state("1@1", GONE), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "1@1 2@1", 6, 10),
            id="at the floor the dead stay listed",
        ),
        pytest.param(
            "1@1 2@1",
            "2@1",
            [broker_state("1@2", GONE, process_since=1), broker_state("2@1")],
            ("2@1", "1@1 2@1", 5, 9),
            id="and in the session in which they were in sync",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "1@1",
            [broker_state("1@1", GONE), broker_state("2@1", GONE), broker_state("3@1", GONE)],
            (None, "1@1 2@1 3@1", 6, 10),
            id="with nobody alive the partition is offline and forgets nobody",
        ),
        pytest.param(
            "2@1 3@1",
            "2@1",
            [broker_state("1@1"), broker_state("2@1", GONE), broker_state("3@1", GONE)],
            (None, "2@1 3@1", 6, 10),
            id="a replica that is not in sync never leads",
        ),
        pytest.param(
            "1@1",
            "1@1",
            [broker_state("1@2", process_since=1)],
            ("1@2", "1@2", 6, 10),
            id="the same process in a new session leads under a new epoch",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "2@1",
            [broker_state("1@1"), broker_state("2@2", process_since=1), broker_state("3@1")],
            ("2@2", "1@1 2@2 3@1", 6, 10),
            id="also where replicas before it could lead",
        ),
        pytest.param(
            "1@1",
            "1@1",
            [broker_state("1@2")],
            (None, "1@1", 6, 10),
            id="a restarted leader does not lead before its log is looked at",
        ),
        pytest.param(
            "1@1",
            "1@1",
            [replace(broker_state("1@2", process_since=1), is_in_session=False)],
            (None, "1@1", 6, 10),
            id="nor a process whose disk does not know its new session",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "2@1",
            [broker_state("1@2", process_since=1), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "1@2 2@1 3@1", 5, 10),
            id="a follower that goes on stays in sync",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "2@1",
            [broker_state("1@2"), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "2@1 3@1", 5, 10),
            id="a restarted follower is out, however intact its disk is",
        ),
        pytest.param(
            "1@1 2@1",
            "2@1",
            [broker_state("1@2"), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "1@1 2@1", 5, 9),
            id="at the floor it stays listed in its old session, until its leader proposes it",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "1@1",
            [broker_state("1@2", intact_since=2), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "2@1 3@1", 6, 10),
            id="a restarted leader with a suspect disk is out",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "1@1",
            [broker_state("1@1", leaving=True), broker_state("2@1"), broker_state("3@1")],
            ("2@1", "1@1 2@1 3@1", 6, 10),
            id="a draining broker hands over",
        ),
        pytest.param(
            "1@1 2@1",
            "2@1",
            [broker_state("1@1"), broker_state("2@1", leaving=True)],
            ("1@1", "1@1 2@1", 6, 10),
            id="also to the only other one",
        ),
        pytest.param(
            "1@1 2@1 3@1",
            "3@1",
            [broker_state("1@1", leaving=True), broker_state("2@1"), broker_state("3@1", GONE)],
            ("2@1", "1@1 2@1", 6, 10),
            id="a draining broker is not elected while another can lead",
        ),
    ],
)
def test_elections(
    isr: str,
    leader: str,
    brokers: list[BrokerState],
    expected: tuple[str | None, str, int, int],
) -> None:
    assert shown(elect(state(isr, leader), TOPIC, 2, broker_states(*brokers))) == expected


@pytest.mark.parametrize(
    "brokers",
    [
        pytest.param(
            [broker_state("1@1", UNKNOWN), broker_state("2@1")], id="about to be admitted"
        ),
        pytest.param([broker_state("2@1")], id="without an object"),
    ],
)
def test_nobody_is_deposed_on_a_guess(brokers: list[BrokerState]) -> None:
    before = state("1@1 2@1", "1@1", (1, 2))

    assert elect(before, TOPIC, 1, broker_states(*brokers)) is before


def test_one_replica_stays_with_its_draining_broker() -> None:
    before = state("1@1", "1@1", (1,))

    assert elect(before, TOPIC, 1, broker_states(broker_state("1@1", leaving=True))) is before


def test_a_damaged_replica_does_not_lead() -> None:
    before = state("1@1 2@1", "1@1", (1, 2))

    after = elect(
        before, TOPIC, 1, broker_states(broker_state("1@1"), broker_state("2@1"), damaged=1)
    )

    assert after.leader == ref("2@1")


def test_a_damaged_replica_is_not_carried_over() -> None:
    """Though it is the process that was in sync."""
    before = state("1@1", "1@1", (1,))

    after = elect(before, TOPIC, 1, broker_states(broker_state("1@2", process_since=1), damaged=1))

    assert (after.leader, after.isr) == (None, (ref("1@1"),))


def test_a_session_from_the_future_is_not_carried_back() -> None:
    before = state("1@8", "1@8", (1,))

    assert elect(before, TOPIC, 1, broker_states(broker_state("1@2"))) is before


def test_where_all_came_back_suspect_the_replicas_are_asked() -> None:
    before = state("1@1 2@1", "1@1", (1, 2))
    brokers = broker_states(
        broker_state("1@2", intact_since=2), broker_state("2@2", intact_since=2)
    )

    after = elect(before, TOPIC, 1, brokers)

    assert after.reports_wanted
    assert shown(after) == (None, "1@1 2@1", 6, 10)


def test_the_replicas_are_asked_as_soon_as_nobody_leads() -> None:
    """Whoever returns then says what it has at once."""
    before = state("1@1 2@1", "1@1", (1, 2))

    after = elect(
        before, TOPIC, 1, broker_states(broker_state("1@1", GONE), broker_state("2@1", GONE))
    )

    assert after.reports_wanted
    assert shown(after) == (None, "1@1 2@1", 6, 10)


def test_a_partition_that_an_older_operator_left_without_a_leader_is_asked_about() -> None:
    after = elect(
        state("1@1 2@1", None, (1, 2)),
        TOPIC,
        2,
        broker_states(broker_state("1@2"), broker_state("2@2")),
    )

    assert after.reports_wanted
    assert shown(after) == (None, "1@1 2@1", 5, 10)


def test_nothing_is_decided_while_reports_are_awaited() -> None:
    before = replace(state("1@1 2@1", "1@1", (1, 2)), reports_wanted=True)

    assert (
        elect(before, TOPIC, 1, broker_states(broker_state("1@1", GONE), broker_state("2@1")))
        is before
    )


def test_every_isr_keeps_its_floor() -> None:
    """All states of three replicas against all lives of their brokers (R4)."""
    lives = [ProcessState.ALIVE, ProcessState.GONE, ProcessState.UNKNOWN]
    for isr in ("1@1", "1@1 2@1", "2@1 3@1", "1@1 2@1 3@1"):
        before = state(isr, isr.split()[0])
        for number in range(27):
            brokers = [
                broker_state(f"{broker_id}@1", lives[number // 3 ** (broker_id - 1) % 3])
                for broker_id in (1, 2, 3)
            ]
            for min_isr in (1, 2, 3):
                after = elect(before, TOPIC, min_isr, broker_states(*brokers))
                assert len(after.isr) >= min(min_isr, len(before.isr))
                assert set(after.isr) <= set(before.isr)
                assert after.leader is None or after.leader in after.isr
                _assert_led_by_the_living(after, brokers)


def _assert_led_by_the_living(after: PartitionState, brokers: list[BrokerState]) -> None:
    living: set[ReplicaRef | None] = {
        one.ref for one in brokers if one.process_state is ProcessState.ALIVE
    }
    dead = {one.ref for one in brokers if one.process_state is ProcessState.GONE}
    assert after.leader not in dead
    if after.leader is None:
        assert not living & set(after.isr)


ALL_THREE = (broker_state("1@1"), broker_state("2@1"), broker_state("3@1"))


@pytest.mark.parametrize(
    ("isr", "min_isr", "damaged", "expected"),
    [
        pytest.param(
            "1@1 2@1 3@1",
            2,
            1,
            ("2@1", "2@1 3@1", 6, 10),
            id="a leader found damaged is out, and another leads",
        ),
        pytest.param(
            "1@1 2@1 3@1", 2, 3, ("1@1", "1@1 2@1", 5, 10), id="a follower found damaged is out"
        ),
        pytest.param("1@1 2@1", 1, 1, ("2@1", "2@1", 6, 10), id="also if only one is left"),
        pytest.param("1@1 2@1", 2, 1, ("2@1", "1@1 2@1", 6, 10), id="at the floor it stays listed"),
        pytest.param(
            "1@1 2@1", 2, 2, ("1@1", "1@1 2@1", 5, 9), id="at the floor a follower stays, too"
        ),
    ],
)
def test_a_replica_found_damaged_in_its_session(
    isr: str, min_isr: int, damaged: int, expected: tuple[str | None, str, int, int]
) -> None:
    after = elect(state(isr, "1@1"), TOPIC, min_isr, broker_states(*ALL_THREE, damaged=damaged))

    assert shown(after) == expected


@pytest.mark.parametrize(
    ("isr", "min_isr", "expected"),
    [
        pytest.param("1@1 2@1 3@1", 2, ("2@1", "2@1 3@1", 6, 10), id="above the floor it is out"),
        pytest.param("1@1 2@1", 2, ("2@1", "1@1 2@1", 6, 10), id="at the floor it stays"),
    ],
)
def test_a_broker_whose_disk_failed(
    isr: str, min_isr: int, expected: tuple[str | None, str, int, int]
) -> None:
    """It lives, but nothing is stored there any more."""
    failed = replace(ALL_THREE[0], may_lead=False)

    after = elect(state(isr, "1@1"), TOPIC, min_isr, broker_states(failed, *ALL_THREE[1:]))

    assert shown(after) == expected


def test_a_damaged_leader_without_anybody_else_is_not_given_up() -> None:
    """What it has may be all there is: nobody leads, and everybody is asked."""
    after = elect(state("1@1", "1@1"), TOPIC, 1, broker_states(*ALL_THREE, damaged=1))

    assert shown(after) == (None, "1@1", 6, 10)
    assert after.reports_wanted


def test_a_copy_that_its_leader_proposed_stays_listed() -> None:
    known = broker_states(*ALL_THREE, damaged=3)
    before = state("1@1 2@1 3@1", "1@1")

    assert elect(before, TOPIC, 2, replace(known, refetching=known.damaged)) is before


def test_a_copy_that_was_begun_anew_does_not_count_for_the_floor() -> None:
    """Were 1 dropped for its damage, only 2 could serve."""
    known = broker_states(*ALL_THREE)
    spoiled, anew = ((BrokerId(one), TOPIC, PartitionIndex(0)) for one in (1, 3))
    known = replace(known, damaged=frozenset({spoiled, anew}), refetching=frozenset({anew}))

    after = elect(state("1@1 2@1 3@1", "1@1"), TOPIC, 2, known)

    assert shown(after) == ("2@1", "1@1 2@1 3@1", 6, 10)


@pytest.mark.parametrize(
    ("isr", "min_isr", "damaged", "expected"),
    [
        pytest.param(
            "1@1 2@1 3@1", 2, None, ("2@1", "2@1 3@1", 6, 10), id="it leaves where others suffice"
        ),
        pytest.param("1@1 2@1", 2, None, ("2@1", "1@1 2@1", 6, 10), id="at the floor it stays"),
        pytest.param(
            "1@1 2@1 3@1", 2, 3, ("2@1", "1@1 2@1 3@1", 6, 10), id="and where another cannot serve"
        ),
    ],
)
def test_a_broker_that_is_about_to_end(
    isr: str, min_isr: int, damaged: int | None, expected: tuple[str | None, str, int, int]
) -> None:
    brokers = (broker_state("1@1", leaving=True), *ALL_THREE[1:])
    known = broker_states(*brokers, damaged=damaged)
    known = replace(known, stopping=frozenset({ref("1@1")}), refetching=known.damaged)

    assert shown(elect(state(isr, "1@1"), TOPIC, min_isr, known)) == expected


def test_the_order_of_the_replicas_says_who_follows_not_that_of_the_isr() -> None:
    brokers = broker_states(broker_state("1@1", GONE), *ALL_THREE[1:])

    after = elect(state("1@1 2@1 3@1", "1@1", (3, 1, 2)), TOPIC, 2, brokers)

    assert after.leader == ref("3@1")


def test_a_member_that_is_no_replica_any_more_follows_last() -> None:
    brokers = broker_states(broker_state("1@1", GONE), *ALL_THREE[1:])

    after = elect(state("1@1 2@1 3@1", "1@1", (1, 3)), TOPIC, 2, brokers)

    assert after.leader == ref("3@1")


def test_a_dead_follower_of_two_leaves_where_one_suffices() -> None:
    brokers = broker_states(broker_state("1@1"), broker_state("2@1", GONE))

    after = elect(state("1@1 2@1", "1@1", (1, 2)), TOPIC, 1, brokers)

    assert shown(after) == ("1@1", "1@1", 5, 10)


@pytest.mark.parametrize(
    ("unchecked", "alive", "leader"),
    [
        pytest.param({3}, {3}, "1@1", id="a replica that lives and has not spoken is waited for"),
        pytest.param({4}, {4}, "2@1", id="a broker without a copy is not"),
        pytest.param({1}, set(), "2@1", id="nor is a dead replica"),
        pytest.param({1, 4}, {4}, "1@1", id="but then the partition may have moved to any broker"),
    ],
)
def test_who_has_not_compared_its_disk_with_the_maps(
    unchecked: set[int], alive: set[int], leader: str
) -> None:
    known = broker_states(broker_state("1@1", GONE), *ALL_THREE[1:], broker_state("4@1"))
    known = replace(
        known,
        unchecked=frozenset(map(BrokerId, unchecked)),
        unchecked_alive=frozenset(map(BrokerId, alive)),
    )

    assert elect(state("1@1 2@1 3@1", "1@1"), TOPIC, 2, known).leader == ref(leader)


def test_what_changes_nothing_is_no_change() -> None:
    before = state("1@1 2@1", "1@1")

    assert changed(before, before.isr, before.leader, broker_states(*ALL_THREE)) is before


FIRST_DIED = broker_states(broker_state("1@1", GONE), *ALL_THREE[1:])


def partition_map(state: PartitionState) -> PartitionMapSpec:
    generation = Generation(topic_id=TOPIC, partitions=(state,))
    return PartitionMapSpec(
        cluster=CLUSTER,
        topic_name="orders",
        current=TOPIC,
        min_isr=2,
        durability=Durability.FSYNC,
        generations=(generation,),
    )


def test_a_map_in_which_nothing_is_due_is_the_very_same_object() -> None:
    before = partition_map(state("1@1 2@1 3@1", "1@1"))

    assert elect_all(before, broker_states(*ALL_THREE)) is before


def test_elections_in_a_whole_map() -> None:
    before = partition_map(state("1@1 2@1 3@1", "1@1"))

    (generation,) = elect_all(before, FIRST_DIED).generations

    (after,) = generation.partitions
    assert shown(after) == ("2@1", "2@1 3@1", 6, 10)


def test_damage_is_looked_up_under_the_id_of_the_generation() -> None:
    before = partition_map(state("1@1 2@1 3@1", "1@1"))

    (generation,) = elect_all(before, broker_states(*ALL_THREE, damaged=1)).generations

    assert generation.partitions[0].leader == ref("2@1")


def test_nobody_is_elected_in_the_trash_nor_in_hibernation() -> None:
    before = partition_map(state("1@1 2@1 3@1", "1@1"))
    (generation,) = before.generations
    in_trash = replace(before, current=None, generations=(replace(generation, trash_until=NOW),))

    assert elect_all(in_trash, FIRST_DIED) is in_trash
    hibernating = replace(before, hibernated=True)
    assert elect_all(hibernating, FIRST_DIED) is hibernating


def test_nobody_is_elected_while_those_who_have_not_spoken_could_be_a_whole_isr() -> None:
    """Dead ones, too: they may come back with records that nobody else has (R6)."""
    before = partition_map(state("1@1 2@1 3@1", "1@1"))
    known = replace(FIRST_DIED, unchecked=frozenset(map(BrokerId, (1, 2))))

    assert elect_all(before, known) is before


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param(broker_state("1@2"), "2@1", id="it has compared its disk"),
        pytest.param(broker_state("1@2", storage_since=2), "1@1", id="it has lost its disk"),
    ],
)
def test_what_a_lost_disk_knew_of_moves_is_awaited_from_all_others(
    first: BrokerState, expected: str
) -> None:
    """Broker 5 may have got the partition by metadata that was lost with etcd. The other replica
    may have been dead since before that."""
    before = state("1@1 2@1", "1@1", replicas=(1, 2))
    fifth = frozenset({BrokerId(5)})
    known = replace(
        broker_states(first, broker_state("2@1"), broker_state("5@1")),
        unchecked=fifth,
        unchecked_alive=fifth,
    )

    assert str(elect(before, TOPIC, 1, known).leader) == expected
