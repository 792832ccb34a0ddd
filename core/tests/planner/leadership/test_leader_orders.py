"""Leaderships that a Rebalance moves: when, where to, and what is left alone."""

from dataclasses import replace

import pytest

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicId
from chiplog_core.model.actions import Replace
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.model.conditions import ConditionType
from chiplog_core.model.rebalance_status import LeaderMove, RebalanceState
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.settings import find_settings
from chiplog_core.planner.leadership.leader_orders import find_orders, order_all
from chiplog_core.planner.leadership.preferred import MAX_CONCURRENT_MOVES, REST
from tests.planner.leadership.test_leadership import cluster, leaders
from tests.planner.leadership.test_proposals import isr, propose, replicated
from tests.planner.model import Kubernetes
from tests.planner.objects import topic
from tests.planner.rebalances import move, rebalance, state_of


def orders(kubernetes: Kubernetes) -> list[tuple[BrokerId, ...]]:
    found = kubernetes.maps["orders"].spec.generations[0].partitions
    return [state.replicas for state in found]


def write(kubernetes: Kubernetes) -> int:
    """Carry out one plan; how many leaderships it moved."""
    before = leaders(kubernetes).split()
    kubernetes.execute(kubernetes.plan().actions)
    return sum(was != now for was, now in zip(before, leaders(kubernetes).split(), strict=True))


def test_approved_moves_are_one_write_of_order_and_leader() -> None:
    kubernetes = cluster()
    before = state_of(kubernetes, 0)
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3), move(kubernetes, 1, 1)),)

    kubernetes.execute(kubernetes.plan().actions)

    after = state_of(kubernetes, 0)
    assert leaders(kubernetes) == "3@1 1@1 3@1"
    assert orders(kubernetes) == [(3, 1, 2), (1, 2, 3), (3, 1, 2)]
    assert after.isr == (after.isr[0], *(one for one in before.isr if one != after.isr[0]))
    assert sorted(after.isr) == sorted(before.isr)
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1
    assert [one for one in kubernetes.plan().actions if isinstance(one, Replace)] == []


def test_what_was_moved_stays_moved_when_all_is_at_rest() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    kubernetes.settle()
    kubernetes.rebalances = ()
    kubernetes.settle()
    kubernetes.now += 2 * REST
    kubernetes.settle()
    assert leaders(kubernetes) == "2@1 2@1 3@1"


@pytest.mark.parametrize("state", [one for one in RebalanceState if one != "Rebalancing"])
def test_in_any_other_state_nothing_moves(state: RebalanceState) -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2), state=state),)
    assert kubernetes.plan().actions == ()


@pytest.mark.parametrize(
    "one",
    [
        pytest.param({"approved": "even-0"}, id="another proposal was approved"),
        pytest.param({"annotations": {labels.PAUSE: "true"}}, id="paused"),
    ],
)
def test_what_is_not_in_force_moves_nothing(one: dict[str, object]) -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2), **one),)  # type: ignore[arg-type]
    assert kubernetes.plan().actions == ()


def test_one_that_is_deleted_or_never_approved_moves_nothing() -> None:
    kubernetes = cluster()
    approved = rebalance(move(kubernetes, 0, 2))
    ending = replace(approved.metadata, deletion_timestamp=kubernetes.now)
    for one in (
        replace(approved, metadata=ending),
        replace(approved, status=replace(approved.status, moves=None)),
        replace(approved, status=replace(approved.status, proposal=None)),
    ):
        kubernetes.rebalances = (one,)
        assert kubernetes.plan().actions == ()


def test_a_paused_cluster_keeps_its_leaders() -> None:
    kubernetes = cluster()
    paused = {**kubernetes.cluster.metadata.annotations, labels.PAUSE: "true"}
    kubernetes.cluster = replace(
        kubernetes.cluster, metadata=replace(kubernetes.cluster.metadata, annotations=paused)
    )
    kubernetes.settle()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    kubernetes.settle()
    assert leaders(kubernetes) == "1@1 2@1 3@1"


def test_a_partition_that_became_another_one_is_left_alone() -> None:
    kubernetes = cluster()
    stale = (
        replace(move(kubernetes, 0, 2), leader_epoch=LeaderEpoch(7)),
        replace(move(kubernetes, 1, 1), expected_replicas=(BrokerId(2), BrokerId(1), BrokerId(3))),
        replace(move(kubernetes, 2, 1), topic="gone"),
    )
    kubernetes.rebalances = (rebalance(*stale),)
    kubernetes.settle()
    assert leaders(kubernetes) == "1@1 2@1 3@1"


def test_a_leader_that_dies_first_makes_its_move_stale() -> None:
    kubernetes = cluster()
    proposed = move(kubernetes, 0, 3)
    kubernetes.kill(1)
    kubernetes.rebalances = (rebalance(proposed),)
    kubernetes.settle()
    assert leaders(kubernetes) == "2@1 2@1 3@1"
    assert orders(kubernetes)[0] == (1, 2, 3)


def test_a_successor_that_dies_first_does_not_lead() -> None:
    kubernetes = cluster()
    proposed = move(kubernetes, 0, 3)
    kubernetes.kill(3)
    kubernetes.rebalances = (rebalance(proposed),)
    kubernetes.settle()
    assert leaders(kubernetes).split()[0] == "1@1"
    assert orders(kubernetes)[0] == (1, 2, 3)


def test_a_successor_that_left_the_isr_does_not_lead() -> None:
    kubernetes = replicated()
    proposed = move(kubernetes, 0, 3)
    propose(kubernetes, "1@1 2@1")
    kubernetes.settle()
    kubernetes.rebalances = (rebalance(proposed),)
    kubernetes.settle()
    assert leaders(kubernetes) == "1@1"


def test_a_successor_that_is_about_to_go_is_waited_for() -> None:
    kubernetes = cluster()
    proposed, broker = move(kubernetes, 0, 3), kubernetes.brokers[BrokerId(3)]
    kubernetes.rebalances = (rebalance(proposed),)
    leaving = replace(broker, spec=replace(broker.spec, intent=BrokerIntent.DRAIN))
    kubernetes.brokers[BrokerId(3)] = kubernetes.stored(leaving)
    assert _moved(kubernetes) == {}
    kubernetes.brokers[BrokerId(3)] = kubernetes.stored(broker)
    assert _moved(kubernetes) == {0: "3@1"}


def _moved(kubernetes: Kubernetes) -> dict[int, str]:
    """New leaders that a plan has for partition 0."""
    return {
        state.partition: str(state.leader)
        for action in kubernetes.plan().actions
        if isinstance(action, Replace) and not isinstance(action.resource, Broker)
        for state in action.resource.spec.generations[0].partitions
        if state.partition == 0 and state.leader != state_of(kubernetes, 0).leader
    }


def test_nothing_moves_while_nobody_knows_whether_the_leader_lives() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3)),)
    assert _moved(kubernetes) == {0: "3@1"}
    kubernetes.start(1)  # another process of it registers, and is not admitted yet
    assert _moved(kubernetes) == {}


def test_a_successor_that_is_damaged_or_has_no_disk_does_not_lead() -> None:
    kubernetes = cluster(config={"min.insync.replicas": "3"})  # so that it stays in the ISR
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3)),)
    status = kubernetes.brokers[BrokerId(3)].status
    (directory,) = status.directories
    topic_id = kubernetes.maps["orders"].spec.generations[0].topic_id
    damaged = DamagedPartition(topic_id=topic_id, partition=PartitionIndex(0), file="x.log")
    for one in (replace(directory, damaged=(damaged,)), replace(directory, online=False)):
        kubernetes.status(3, replace(status, directories=(one,)))
        assert _moved(kubernetes) == {}
    kubernetes.status(3, status)
    assert _moved(kubernetes) == {0: "3@1"}


def test_a_partition_whose_replicas_are_asked_or_moved_is_held() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3)),)
    known = kubernetes.maps["orders"]
    (generation,) = known.spec.generations
    first, *others = generation.partitions
    for held in (
        replace(first, reports_wanted=True),
        replace(first, adding=(BrokerId(2),)),
        replace(first, removing=(BrokerId(2),)),
    ):
        changed = replace(generation, partitions=(held, *others))
        spec = replace(known.spec, generations=(changed,))
        kubernetes.maps["orders"] = replace(known, spec=spec)
        assert _moved(kubernetes) == {}, held


def test_only_the_order_changes_where_the_leader_is_to_stay() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.settle()
    assert leaders(kubernetes).split()[0] == "2@1"
    before = state_of(kubernetes, 0)
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)

    kubernetes.settle()

    after = state_of(kubernetes, 0)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert after.replicas == (2, 1, 3)
    assert after.partition_epoch > before.partition_epoch


def test_few_leaderships_move_at_a_time() -> None:
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic(partitions=3 * MAX_CONCURRENT_MOVES, replicas=3))
    kubernetes.run()
    proposed = [_onward(kubernetes, one) for one in range(3 * MAX_CONCURRENT_MOVES)]
    kubernetes.rebalances = (
        rebalance(*proposed[:5], concurrent_leader_movements=2),
        rebalance(*proposed[5:], name="other"),
    )
    assert write(kubernetes) == MAX_CONCURRENT_MOVES
    kubernetes.rebalances = kubernetes.rebalances[:1]
    assert [write(kubernetes) for _ in range(3)] == [2, 1, 0]
    kubernetes.rebalances = (rebalance(*proposed),)
    kubernetes.settle()
    assert [state_of(kubernetes, one.partition).replicas for one in proposed] == [
        one.replicas for one in proposed
    ]


def _onward(kubernetes: Kubernetes, partition: int) -> LeaderMove:
    return move(kubernetes, partition, state_of(kubernetes, partition).replicas[1])


def test_of_two_that_want_the_same_partition_one_has_it() -> None:
    kubernetes = cluster()
    first, second = move(kubernetes, 0, 2), move(kubernetes, 0, 3)
    kubernetes.rebalances = (rebalance(first), rebalance(second, name="other"))
    kubernetes.settle()
    assert leaders(kubernetes) == "2@1 2@1 3@1"


def test_a_hibernated_map_stays_as_it_is() -> None:
    kubernetes = cluster()
    known = kubernetes.maps["orders"]
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    frozen = replace(known, spec=replace(known.spec, hibernated=True))
    kubernetes.maps["orders"] = kubernetes.stored(frozen)
    kubernetes.settle()
    assert leaders(kubernetes) == "1@1 2@1 3@1"


def test_a_status_that_moves_data_orders_nothing() -> None:
    kubernetes = cluster()
    honest = move(kubernetes, 0, 2)
    for forged in (
        replace(honest, replicas=(BrokerId(2), BrokerId(1))),
        replace(honest, replicas=(BrokerId(1), BrokerId(2), BrokerId(3))),
    ):
        kubernetes.rebalances = (rebalance(forged),)
        kubernetes.settle()
        assert leaders(kubernetes) == "1@1 2@1 3@1"
        assert orders(kubernetes)[0] == (1, 2, 3)


def test_a_cluster_whose_leaderships_move_is_not_quiesced() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    kubernetes.settle()
    quiesced = next(
        one
        for one in kubernetes.cluster.status.conditions
        if one.type == ConditionType.QUIESCED.value
    )
    assert (quiesced.status.value, quiesced.message) == (
        "False",
        "a Rebalance is being carried out",
    )


def test_a_proposal_of_the_old_leader_that_is_still_there_harms_nothing() -> None:
    kubernetes = replicated()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3)),)
    propose(kubernetes, "1@1 2@1")
    kubernetes.settle()
    # It was accepted first, so the successor is not in sync any more.
    assert leaders(kubernetes) == "1@1"
    assert isr(kubernetes) == "1@1 2@1"


def test_before_everything_was_listed_orders_count_as_elections_do() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    kubernetes.execute(kubernetes.plan(is_complete=False, topics=()).actions)
    assert leaders(kubernetes) == "2@1 2@1 3@1"


def test_what_a_rebalance_names_and_is_not_there_any_more_is_left_alone() -> None:
    kubernetes = cluster()
    gone = replace(move(kubernetes, 0, 2), partition=PartitionIndex(9))
    kubernetes.rebalances = (rebalance(gone, move(kubernetes, 1, 3)),)
    kubernetes.settle()
    assert leaders(kubernetes) == "1@1 3@1 3@1"

    known = kubernetes.maps["orders"]
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 3)),)
    deleted = replace(known, spec=replace(known.spec, current=None))
    found = find_orders(
        kubernetes.world(maps={"orders": deleted}),
        find_settings(kubernetes.world()),
        find_broker_states(kubernetes.world(), awaiting_admission(kubernetes.world())),
    )
    assert found == {}


def test_only_the_generation_that_clients_see_is_ordered() -> None:
    kubernetes = cluster()
    spec = kubernetes.maps["orders"].spec
    kubernetes.rebalances = (rebalance(move(kubernetes, 0, 2)),)
    world = kubernetes.world()
    brokers = find_broker_states(world, awaiting_admission(world))
    orders_now = find_orders(world, find_settings(world), brokers)
    assert orders_now.keys() == {"orders"}
    hidden = replace(spec.generations[0], topic_id=TopicId((8).to_bytes(16, "big")))

    after = order_all(replace(spec, generations=(hidden, *spec.generations)), brokers, orders_now)

    assert after.generations[0] is hidden
    assert after.generations[1].partitions[0].replicas == (2, 1, 3)
