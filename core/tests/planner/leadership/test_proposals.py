"""R5, case by case: what a proposal has to name, and that each is answered once."""

from dataclasses import replace

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    Session,
    TopicId,
)
from chiplog_core.model.broker_status import IsrProposal
from chiplog_core.model.partition_map import Generation, PartitionMapSpec
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.leadership.elections import can_lead, elect
from chiplog_core.planner.leadership.proposals import Claim, is_beyond, judge, judge_all
from tests.planner.leadership.test_elections import TOPIC, broker_state, broker_states, shown, state
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW, ref, topic

GONE, UNKNOWN = ProcessState.GONE, ProcessState.UNKNOWN
ALL_WELL = [broker_state("1@1"), broker_state("2@1"), broker_state("3@1")]


def claim(isr: str, leader: str = "1@1", *, epoch: int = 5, base: int = 9) -> Claim:
    made_by = ref(leader)
    return Claim(
        made_by.broker_id,
        IsrProposal(
            topic_id=TOPIC,
            partition=PartitionIndex(0),
            session=made_by.session,
            leader_epoch=LeaderEpoch(epoch),
            base_partition_epoch=PartitionEpoch(base),
            isr=tuple(map(ref, isr.split())),
        ),
    )


def judged(
    isr: str, made: Claim, known: BrokerStates | None = None, min_isr: int = 2
) -> tuple[str | None, str, int, int]:
    return shown(
        judge(state(isr, "1@1"), TOPIC, [made], min_isr, known or broker_states(*ALL_WELL))
    )


@pytest.mark.parametrize(
    ("isr", "proposed", "expected"),
    [
        ("1@1 2@1", "3@1 1@1 2@1", "1@1 2@1 3@1"),
        ("1@1 2@1 3@1", "1@1 3@1", "1@1 3@1"),
        ("1@1 2@1 3@1", "1@1 2@1 3@1", "1@1 2@1 3@1"),
        ("1@1", "1@1 2@1", "1@1 2@1"),
    ],
)
def test_what_is_accepted(isr: str, proposed: str, expected: str) -> None:
    assert judged(isr, claim(proposed)) == ("1@1", expected, 5, 10)


@pytest.mark.parametrize(
    ("made", "known"),
    [
        pytest.param(claim("1@1 2@1 3@1", "1@2"), ALL_WELL, id="another session of the leader"),
        pytest.param(claim("1@1 2@1 3@1", "2@1"), ALL_WELL, id="another broker"),
        pytest.param(claim("1@1 2@1 3@1", epoch=4), ALL_WELL, id="an older leader epoch"),
        pytest.param(claim("1@1"), ALL_WELL, id="below the floor"),
        pytest.param(claim("2@1 3@1"), ALL_WELL, id="without the leader"),
        pytest.param(claim("1@1 2@1 4@1"), [*ALL_WELL, broker_state("4@1")], id="not a replica"),
        pytest.param(claim("1@1 2@1 2@2"), ALL_WELL, id="a broker twice"),
        pytest.param(claim("1@1 2@1 3@2"), ALL_WELL, id="a session never admitted"),
        pytest.param(
            claim("1@1 2@1 3@1"), [*ALL_WELL[:2], broker_state("3@2")], id="a session that is over"
        ),
        pytest.param(
            claim("1@1 2@1 3@1"),
            [*ALL_WELL[:2], broker_state("3@1", GONE)],
            id="a dead broker joins",
        ),
        pytest.param(
            claim("1@1 2@1 3@1"),
            [*ALL_WELL[:2], broker_state("3@1", UNKNOWN)],
            id="one about to be admitted joins",
        ),
    ],
)
def test_what_is_refused_is_answered_too(made: Claim, known: list[object]) -> None:
    after = judged("1@1 2@1", made, broker_states(*known))  # type: ignore[arg-type]

    assert after == ("1@1", "1@1 2@1", 5, 10)


def test_one_that_was_answered_is_not_looked_at_again() -> None:
    before = state("1@1 2@1", "1@1")

    assert (
        judge(before, TOPIC, [claim("1@1 2@1 3@1", base=8)], 2, broker_states(*ALL_WELL)) is before
    )


def test_a_damaged_replica_does_not_join() -> None:
    known = broker_states(*ALL_WELL, damaged=3)

    assert judged("1@1 2@1", claim("1@1 2@1 3@1"), known)[1] == "1@1 2@1"


def test_a_copy_of_what_was_damaged_joins_and_does_not_lead_yet() -> None:
    known = broker_states(*ALL_WELL, damaged=3)
    known = replace(known, refetching=known.damaged)

    assert judged("1@1 2@1", claim("1@1 2@1 3@1"), known)[1] == "1@1 2@1 3@1"
    assert not can_lead(ref("3@1"), state("1@1 2@1 3@1", "1@1"), TOPIC, known)


def test_a_damaged_leader_takes_nobody_out() -> None:
    """Whom it would take out may have what it has lost."""
    known = broker_states(*ALL_WELL, damaged=1)

    made = judge(state("1@1 2@1", "1@1"), TOPIC, [claim("1@1")], 1, known)

    assert shown(made) == ("1@1", "1@1 2@1", 5, 10)
    assert shown(elect(made, TOPIC, 1, known))[:2] == ("2@1", "2@1")


def test_one_that_stops_does_not_join() -> None:
    known = replace(broker_states(*ALL_WELL), stopping=frozenset({ref("3@1")}))

    assert judged("1@1 2@1", claim("1@1 2@1 3@1"), known)[1] == "1@1 2@1"


def test_a_dead_leader_is_deposed_not_answered() -> None:
    before = state("1@1 2@1", "1@1")
    known = broker_states(broker_state("1@1", GONE), *ALL_WELL[1:])

    assert judge(before, TOPIC, [claim("1@1 2@1 3@1")], 2, known) is before


def test_the_leaders_proposal_counts_whoever_else_proposes() -> None:
    made = [claim("2@1 3@1", "2@1"), claim("1@1 2@1 3@1")]

    after = judge(state("1@1 2@1", "1@1"), TOPIC, made, 2, broker_states(*ALL_WELL))

    assert shown(after) == ("1@1", "1@1 2@1 3@1", 5, 10)


def test_a_map_is_ordered_as_its_assignment_is() -> None:
    before = state("1@1 2@1", "1@1", (3, 1, 2))

    after = judge(before, TOPIC, [claim("1@1 2@1 3@1")], 2, broker_states(*ALL_WELL))

    assert shown(after)[1] == "3@1 1@1 2@1"


def map_of(*generations: Generation) -> PartitionMapSpec:
    return PartitionMapSpec(
        cluster="demo",
        topic_name="orders",
        min_isr=2,
        durability=Durability.FSYNC,
        generations=generations,
    )


def test_only_what_was_proposed_for_is_judged() -> None:
    """Of two partitions one, and of two generations the one that is not in the trash."""
    one = state("1@1 2@1", "1@1")
    other = replace(one, partition=PartitionIndex(1))
    present = Generation(topic_id=TOPIC, partitions=(one, other))
    older = replace(present, topic_id=TopicId((8).to_bytes(16, "big")))
    trash = replace(present, topic_id=TopicId((9).to_bytes(16, "big")), trash_until=NOW)
    made = {PartitionIndex(0): [claim("1@1 2@1 3@1")]}

    after = judge_all(
        map_of(older, trash, present),
        broker_states(*ALL_WELL),
        {TOPIC: made, trash.topic_id: made},
    )

    assert after.generations[:2] == (older, trash)
    assert shown(after.generations[2].partitions[0]) == ("1@1", "1@1 2@1 3@1", 5, 10)
    assert after.generations[2].partitions[1] is other


def test_damage_of_the_partition_of_this_topic_counts_in_the_whole_map_too() -> None:
    before = map_of(Generation(topic_id=TOPIC, partitions=(state("1@1 2@1", "1@1"),)))
    made = {TOPIC: {PartitionIndex(0): [claim("1@1 2@1 3@1")]}}

    after = judge_all(before, broker_states(*ALL_WELL, damaged=3), made)

    assert shown(after.generations[0].partitions[0]) == ("1@1", "1@1 2@1", 5, 10)


def test_the_dead_make_place_in_the_plan_that_lets_others_in() -> None:
    kubernetes = replicated()
    for broker_id in (3, 2):
        kubernetes.kill(broker_id)
        kubernetes.settle()
    assert isr(kubernetes) == "1@1 2@1", "at the floor"
    kubernetes.start(3)
    kubernetes.settle()

    propose(kubernetes, "1@1 2@1 3@2")
    kubernetes.execute(kubernetes.plan().actions)

    assert isr(kubernetes) == "1@1 3@2"


def test_a_proposal_beyond_the_map_asks_the_replicas() -> None:
    kubernetes = replicated()

    propose(kubernetes, "1@1 2@1", base=7)
    kubernetes.execute(kubernetes.plan().actions)

    (asked,) = kubernetes.maps["orders"].spec.generations[0].partitions
    assert asked.reports_wanted
    assert (asked.leader_epoch, asked.partition_epoch) == (0, 0)
    kubernetes.obey()
    kubernetes.execute(kubernetes.plan().actions)
    (after,) = kubernetes.maps["orders"].spec.generations[0].partitions
    assert after.partition_epoch > 7


def test_what_is_beyond_a_map() -> None:
    before = state("1@1 2@1", "1@1")

    assert not is_beyond(claim("1@1"), before)
    assert is_beyond(claim("1@1", base=10), before)
    assert is_beyond(claim("1@1", epoch=6), before)


def test_a_frozen_map_answers_when_it_is_woken() -> None:
    kubernetes = replicated()
    one = kubernetes.maps["orders"]
    kubernetes.maps["orders"] = replace(one, spec=replace(one.spec, hibernated=True))

    propose(kubernetes, "1@1 2@1")
    kubernetes.execute(kubernetes.plan().actions)

    assert isr(kubernetes) == "1@1 2@1 3@1"


def replicated(min_isr: int = 2) -> Kubernetes:
    kubernetes = Kubernetes(3)
    config = {"min.insync.replicas": str(min_isr)}
    kubernetes.apply(topic(partitions=1, replicas=3, config=config))
    kubernetes.run()
    return kubernetes


def isr(kubernetes: Kubernetes) -> str:
    (found,) = kubernetes.maps["orders"].spec.generations[0].partitions
    return " ".join(map(str, found.isr))


def propose(kubernetes: Kubernetes, wanted: str, *, base: int | None = None) -> None:
    """Broker 1 does, which leads."""
    (generation,) = kubernetes.maps["orders"].spec.generations
    (found,) = generation.partitions
    proposal = IsrProposal(
        topic_id=generation.topic_id,
        partition=found.partition,
        session=Session(1),
        leader_epoch=found.leader_epoch,
        base_partition_epoch=found.partition_epoch if base is None else PartitionEpoch(base),
        isr=tuple(map(ref, wanted.split())),
    )
    status = kubernetes.brokers[BrokerId(1)].status
    kubernetes.status(1, replace(status, proposals=(proposal,)))
