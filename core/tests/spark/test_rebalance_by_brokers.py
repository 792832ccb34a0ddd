"""A Rebalance that is measured from the brokers' counters: its run, its proposal, its ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.durations import Duration
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
)
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.rebalance import RebalanceMeasure, RebalanceMode, RebalanceSpec
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_result import Result, ResultState, failed
from chiplog_core.observed.pinned import NONE_PINNED, Pinned
from chiplog_core.observed.processes import Identity
from chiplog_core.rebalance.brokers_load import RATE_WINDOW_MS, Counted, Reading, Readings
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.measured import Broker
from chiplog_core.spark.brokers_measurement import (
    asks_brokers,
    proposal_name,
    result_of,
    waits_for_brokers,
    waits_for_window,
)
from chiplog_core.spark.topic_choice import WaitReason
from tests.spark.rebalances import BROKERS, ONE, THREE, TWO, World, measured, name

WAITS = WaitReason("BrokerNotAnswering", "broker 2 did not report its load")


def by_brokers(**spec: Any) -> World:
    return World(measure=RebalanceMeasure.BROKERS, **spec)


def asking(**spec: Any) -> World:
    world = by_brokers(**spec)
    assert not asks_brokers(world.rebalance)
    world.look()
    assert asks_brokers(world.rebalance)
    return world


def answered(world: World, *partitions: int) -> None:
    result = measured(proposal_name(world.rebalance), *world.moves(*partitions))
    world.look(seconds=10, measurement=result)


def test_it_is_measured_approved_and_carried_out_without_any_job() -> None:
    world = asking()
    assert (world.state, world.ready()) == ("PendingProposal", ("False", "PendingProposal"))
    assert world.message() == "the brokers are asked for their load"
    world.look(seconds=2)
    assert (world.state, world.status.runs) == ("PendingProposal", 1)

    answered(world, 0)
    assert world.state == "ProposalReady"
    assert not asks_brokers(world.rebalance)
    proposal = world.status.proposal
    assert proposal is not None
    assert (proposal.id, world.status.finished_at) == (proposal_name(world.rebalance), world.now)
    world.say("approve")
    world.carry_out(0)
    world.look()
    assert world.state == "Ready"
    assert (world.jobs, world.removed, world.status.application) == ([], [], None)
    assert world.told == ["RunBegun", "ProposalReady", "Approved", "Rebalanced"]


def test_each_run_has_a_proposal_of_its_own() -> None:
    world = asking()
    answered(world, 0)
    first = world.status.proposal
    world.say("refresh")
    world.look(seconds=1)
    assert asks_brokers(world.rebalance)
    answered(world, 1)
    second = world.status.proposal
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_annotations_steer_it_and_the_end_is_estimated() -> None:
    """As in Strimzi: approve, stop and refresh, each in its states."""
    world = asking()
    world.say("approve")
    assert world.state == "PendingProposal", "there is nothing to approve yet"
    answered(world, 0, 1)
    world.say("stop")
    assert world.state == "ProposalReady", "nothing runs that could be stopped"
    world.say("approve")
    moves = world.status.moves
    assert moves is not None
    assert (world.state, moves.done, moves.total, moves.finishes_at) == ("Rebalancing", 0, 2, None)

    world.carry_out(0)
    world.look(seconds=30)
    moves = world.status.moves
    assert moves is not None
    assert (moves.done, moves.finishes_at) == (1, world.now + timedelta(seconds=30))
    assert "1 of 2 moves are done; all will be done at about" in world.message()

    world.say("stop")
    assert world.state == "Stopped"
    world.say("refresh")
    world.look()
    assert (asks_brokers(world.rebalance), world.status.runs) == (True, 2)
    answered(world, 1)
    world.say("approve")
    world.say("refresh")
    world.look()
    assert (world.state, world.status.runs) == ("PendingProposal", 3), "while it moves, too"
    assert world.jobs == []


def test_what_a_capacity_goal_does_not_allow_is_in_the_condition() -> None:
    small = tuple(
        replace(one, capacity=Capacity(total_bytes=1_000, max_disk_percent=80)) for one in BROKERS
    )
    result = proposed(spec(), small)
    assert (
        "DiskCapacityGoal is not met: broker 1 would hold 1 MB"
        in (result.summary["capacityMessage"])
    )
    world = asking()
    world.look(seconds=10, measurement=replace(result, application=proposal_name(world.rebalance)))
    assert world.state == "ProposalReady"
    assert "DiskCapacityGoal is not met" in world.message()
    assert world.status.proposal is not None
    assert world.status.proposal.executable


def test_who_does_not_answer_is_told_and_waited_for() -> None:
    world = asking()
    for _ in range(3):
        world.look(seconds=600, measurement=WAITS)
        assert (world.state, world.ready()) == ("PendingProposal", ("False", "BrokerNotAnswering"))
        assert world.message() == WAITS.message
    answered(world, 0)
    assert world.state == "ProposalReady"


def test_the_time_limit_ends_the_waiting() -> None:
    world = asking(time_limit=Duration("1m"))
    world.look(seconds=60, measurement=WAITS)
    assert world.state == "PendingProposal"
    world.look(seconds=1, measurement=WAITS)
    assert (world.state, world.ready()) == ("NotReady", ("False", "TimeLimit"))
    assert "1m" in world.message()
    assert WAITS.message in world.message()
    world.look(seconds=60)
    assert (world.state, world.status.runs) == ("NotReady", 1)


def test_a_proposal_that_cannot_be_made_or_read_is_not_tried_again() -> None:
    for result, reason in (
        (failed("n", "InvalidSpec", "brokers: there is no broker 9"), "InvalidSpec"),
        (
            Result(application="n", state=ResultState.SUCCEEDED, reason="Measured", summary={}),
            "ResultInvalid",
        ),
    ):
        world = asking()
        world.look(seconds=10, measurement=result)
        assert (world.state, world.ready()) == ("NotReady", ("False", reason))
        world.look(seconds=10)
        assert not asks_brokers(world.rebalance)


def test_it_is_stopped_paused_and_changed_while_the_brokers_are_asked() -> None:
    world = asking()
    world.pause(is_paused=True)
    world.look()
    assert not asks_brokers(world.rebalance)
    world.pause(is_paused=False)
    world.look()
    assert asks_brokers(world.rebalance)
    world.change(excluded_topics="logs-.*")
    assert not asks_brokers(world.rebalance)
    world.look()
    world.look()
    assert (asks_brokers(world.rebalance), world.status.runs) == (True, 2)
    world.say("stop")
    assert (world.state, world.status.finished_at) == ("Stopped", world.now)
    world.look(seconds=9)
    assert not asks_brokers(world.rebalance)


def test_a_job_that_runs_is_ended_before_the_brokers_are_asked() -> None:
    world = World()
    world.look()
    world.look()
    job = world.name
    world.change(measure=RebalanceMeasure.BROKERS)
    world.look()
    assert world.removed == [job]
    for _ in range(3):
        world.look(seconds=2)
    assert asks_brokers(world.rebalance)
    world.change(measure=RebalanceMeasure.SPARK)
    world.look()
    world.look()
    assert len(world.jobs) == 2


def test_as_many_topics_as_there_are_can_be_measured() -> None:
    many = [f"t{one}" for one in range(10_001)]
    world = by_brokers()
    world.look(topics=many)
    assert asks_brokers(world.rebalance)


def test_the_message_names_the_first_broker_that_did_not_answer() -> None:
    led = {ONE: 2, TWO: 5, THREE: 1}
    assert waits_for_brokers(led, {}) is None
    assert waits_for_brokers(led, {BrokerId(4): "away"}) is None, "it leads nothing"
    one = waits_for_brokers(led, {TWO: "no answer within 3 s"})
    assert one is not None
    assert one.message == (
        "broker 2, which leads 5 partitions, did not report its load: no answer within 3 s. The "
        "load is measured when all have answered"
    )
    two = waits_for_brokers(led, {THREE: "away", TWO: "away"})
    assert two is not None
    assert "broker 2, which leads 5 partitions, did not report its load, and 1 more" in two.message


def state(index: int) -> PartitionState:
    return PartitionState(
        partition=PartitionIndex(index),
        replicas=(ONE, TWO),
        isr=(ReplicaRef(ONE, Session(1)), ReplicaRef(TWO, Session(1))),
        leader=ReplicaRef(ONE, Session(1)),
        leader_epoch=LeaderEpoch(7),
        partition_epoch=PartitionEpoch(7),
    )


def read(ticks_ms: int, *, bytes_in: int = 0, life: int = 1) -> Readings:
    """Of broker 1, which leads two partitions."""
    process = Identity(
        broker_id=ONE,
        incarnation=f"{life:032x}",  # type: ignore[arg-type]
        pod_uid="p",
        address="10.0.0.1",
    )
    counted = Counted(
        leader_epoch=LeaderEpoch(7),
        bytes=1_000,
        bytes_in=bytes_in,
        records_in=0,
        ticks_ms=ticks_ms,
    )
    return {ONE: Reading(process=process, partitions={name(0): counted, name(1): counted})}


def test_the_brokers_count_for_some_seconds() -> None:
    began = read(0)
    assert waits_for_window(None, began) is not None
    assert waits_for_window(began, read(RATE_WINDOW_MS - 1)) is not None
    assert waits_for_window(began, read(RATE_WINDOW_MS, life=2)) is not None
    assert waits_for_window(began, read(RATE_WINDOW_MS)) is None


def spec(**changes: Any) -> RebalanceSpec:
    return replace(RebalanceSpec(cluster_ref=ClusterRef(name="demo")), **changes)


def proposed(
    wanted: RebalanceSpec, brokers: tuple[Broker, ...] = BROKERS, pinned: Pinned = NONE_PINNED
) -> Result:
    partitions = {name(index): state(index) for index in (0, 1)}
    last = read(RATE_WINDOW_MS, bytes_in=50_000)
    return result_of(
        *("n", wanted),
        brokers=brokers,
        partitions=partitions,
        window=(read(0), last),
        pinned=pinned,
    )


def test_partitions_that_their_topic_places_stay() -> None:
    assert proposed(spec()).summary["numPinnedPartitions"] == 0
    pinned = {name(0).topic: frozenset({PartitionIndex(0), PartitionIndex(1)})}
    found = proposed(spec(), pinned=pinned).summary
    assert found["numPinnedPartitions"] == 2
    assert (found["numReplicaMovements"], found["numLeaderMovements"]) == (0, 0)


def test_the_proposal_is_that_of_the_job_with_the_brokers_figures() -> None:
    result = proposed(spec())

    (move,) = result.summary["leaderMoves"]
    assert (move["from"], move["to"]) == (1, 2)
    before = {one["broker"]: one for one in result.summary["figures"]["before"]}
    assert (before[1]["bytesPerSecond"], before[1]["bytes"]) == (10_000, 2_000)
    assert result.summary["coverage"] == {"topics": 1, "partitions": 2, "replicas": 2}
    assert result.summary["monitoredPartitionsPercentage"] == 100


def test_sizes_of_partitions_that_move_are_known() -> None:
    moving = replace(state(1), adding=(TWO,))
    found = result_of(
        *("n", spec()),
        brokers=BROKERS,
        partitions={name(0): state(0), name(1): moving},
        window=(read(0), read(RATE_WINDOW_MS)),
    )
    assert found.summary["monitoredPartitionsPercentage"] == 50
    before = {one["broker"]: one["bytes"] for one in found.summary["figures"]["before"]}
    assert (before[1], before[2]) == (2_000, 2_000)


@pytest.mark.parametrize(
    "brokers", [(BROKERS[2],), BROKERS], ids=["none is ready", "unknown broker"]
)
def test_a_proposal_that_does_not_fit_the_brokers_is_refused(brokers: tuple[Broker, ...]) -> None:
    wanted = spec(mode=RebalanceMode.ADD_BROKERS, brokers=(BrokerId(9),))
    result = proposed(wanted, brokers)
    assert (result.state, result.reason) == (ResultState.FAILED, "InvalidSpec")
