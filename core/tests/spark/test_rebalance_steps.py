"""What is done next about a Rebalance: from what is written and seen, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.durations import Duration
from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.model.rebalance_status import RebalanceState, RebalanceStatus
from chiplog_core.model.spark_result import failed
from chiplog_core.model.spark_run import RunState
from chiplog_core.problems import Problem
from chiplog_core.rebalance.documents import leader_move_json
from chiplog_core.spark.rebalance_request import spec_digest
from chiplog_core.spark.rebalance_view import POSSIBLE, Command
from chiplog_core.spark.runs import GRACE, START_LIMIT, ObservedRun
from chiplog_core.spark.topic_choice import WaitReason
from tests.spark.rebalances import BROKERS, NOW, ONE, THREE, TWO, World, in_state, measured, name


def test_it_is_measured_and_the_proposal_waits() -> None:
    world = World(excluded_topics="logs-.*", bytes_per_second=5, time_limit=Duration("1h"))
    world.look()
    assert (world.state, world.jobs) == ("PendingProposal", [])
    world.look()
    (job,) = world.jobs
    assert job["topics"] == ["orders"]
    assert (job["brokers"], job["racks"]) == ([1, 2], {"1": "a"})
    assert not {"nodes", "capacities"} & job.keys(), "an older image does not know them"
    assert (job["excludedTopics"], job["bytesPerSecond"]) == ("logs-.*", 5)
    assert job["timeLimitMs"] == 3_600_000

    world.answer(0, 1)
    assert world.state == "ProposalReady"
    assert world.ready() == ("False", "ProposalReady")
    proposal = world.status.proposal
    assert proposal is not None
    assert (proposal.id, proposal.made_at, proposal.executable) == (world.name, world.now, True)
    assert [one.partition for one in proposal.leader_moves] == [0, 1]
    assert proposal.figures is not None
    assert [one.leaders for one in proposal.figures.before] == [2, 0]
    assert proposal.hot_keys[0].share == 90
    assert f"spec.approvedProposal to {world.name}" in world.message()

    for _ in range(5):
        world.look(seconds=3_600)
    assert (world.state, world.status.moves) == ("ProposalReady", None)
    assert len(world.jobs) == 1
    assert world.told == ["RunBegun", "ProposalReady"]


def test_approved_by_annotation_it_is_carried_out_and_told() -> None:
    world = World()
    world.propose(0, 1)
    world.say("approve")
    assert world.state == "Rebalancing"
    moves = world.status.moves
    assert moves is not None
    assert (moves.proposal, moves.done, moves.total) == (world.name, 0, 2)
    world.carry_out(0)
    world.look(seconds=2)
    assert world.state == "Rebalancing"
    assert world.message() == "1 of 2 moves are done; all will be done at about 12:00:24 UTC"
    world.carry_out(1)
    world.look(seconds=2)
    assert (world.state, world.ready()) == ("Ready", ("True", "Ready"))
    assert world.told[-2:] == ["Approved", "Rebalanced"]
    world.look(seconds=3_600)
    assert (world.state, len(world.jobs)) == ("Ready", 1)


def test_approved_by_the_spec_that_proposal_is_carried_out_and_no_other() -> None:
    world = World()
    world.propose(0)
    first = world.name
    world.change(approved_proposal="even-00000000")
    world.look()
    assert world.state == "ProposalReady"
    assert "names even-00000000, which is another proposal" in world.message()
    world.change(approved_proposal=first)
    world.look()
    assert world.state == "Rebalancing"
    world.carry_out(0)
    world.look()
    assert (world.state, len(world.jobs)) == ("Ready", 1)

    world.say("refresh")
    world.look()
    world.look()
    world.answer(1)
    assert world.name != first
    assert world.state == "ProposalReady"


@pytest.mark.parametrize("by_spec", [True, False])
def test_an_approved_one_waits_while_another_moves_and_names_it(by_spec: bool) -> None:
    world = World()
    world.propose(0)
    world.view["other_rebalance"] = "apps/first"
    if by_spec:
        world.change(approved_proposal=world.name)
    else:
        world.annotate("approve")
    for _ in range(3):
        world.look(seconds=60)
    assert world.state == "ProposalReady"
    assert world.ready() == ("False", "WaitsForAnother")
    assert "when the moves of Rebalance apps/first are finished" in world.message()
    world.view["other_rebalance"] = ""
    world.look()
    assert world.state == "Rebalancing"


def test_one_that_is_not_approved_says_nothing_of_another() -> None:
    world = World()
    world.propose(0)
    world.look(other_rebalance="apps/first")
    assert world.ready() == ("False", "ProposalReady")


def test_an_approval_that_comes_too_late_is_refused_and_refresh_measures_anew() -> None:
    world = World()
    world.propose(0, 1)
    world.maps[name(1)] = replace(world.maps[name(1)], leader=THREE, leader_epoch=LeaderEpoch(8))
    world.say("approve")
    assert world.state == "ProposalReady"
    assert world.ready() == ("False", "ProposalOutdated")
    assert "partition orders-1 is in leader epoch 8 now, not in 7" in world.message()
    assert world.status.moves is None

    world.say("refresh")
    assert (world.state, world.status.proposal) == ("PendingProposal", None)
    world.look()
    world.answer(0)
    assert (world.state, len(world.jobs)) == ("ProposalReady", 2)


def test_an_outdated_approval_by_the_spec_is_told_once() -> None:
    world = World()
    world.propose(0)
    world.maps[name(0)] = replace(world.maps[name(0)], leader_epoch=LeaderEpoch(9))
    world.change(approved_proposal=world.name)
    for _ in range(4):
        world.look(seconds=15)
    assert world.told == ["RunBegun", "ProposalReady", "ProposalOutdated"]
    assert world.state == "ProposalReady"


def test_a_leader_that_dies_in_between_is_told_as_left_out() -> None:
    world = World()
    world.propose(0, 1)
    world.say("approve")
    world.carry_out(0)
    world.maps[name(1)] = replace(
        world.maps[name(1)], leader=THREE, leader_epoch=LeaderEpoch(8), isr=frozenset({TWO, THREE})
    )
    world.look(seconds=2)
    assert (world.state, world.ready()) == ("NotReady", ("False", "MovesLeftOut"))
    assert world.message() == (
        "1 of 2 moves are done; 1 were skipped: partition orders-1 is in "
        "leader epoch 8 now, not in 7. Set the annotation chiplog.dev/rebalance to refresh to "
        "measure again"
    )
    assert world.status.moves is not None
    assert (world.status.moves.done, world.status.moves.left_out) == (1, 1)


def test_stopped_in_the_middle_it_stays_where_it_is() -> None:
    world = World()
    world.propose(0, 1)
    world.change(approved_proposal=world.name)
    world.look()
    world.carry_out(0)
    world.look(seconds=2)
    world.say("stop")
    assert (world.state, world.ready()) == ("Stopped", ("False", "Stopped"))
    assert "1 of 2 moves are done" in world.message()
    world.look(seconds=3_600)
    assert world.state == "Stopped"  # although spec.approvedProposal still names it


def test_moves_can_be_stopped_although_the_status_does_not_count_them() -> None:
    """As one that somebody edited."""
    world = in_state(RebalanceState.REBALANCING)
    world.rebalance = replace(world.rebalance, status=replace(world.status, moves=None))
    world.say("stop")

    assert (world.state, world.ready()) == ("Stopped", ("False", "Stopped"))
    assert world.status.moves is None


def test_a_measuring_that_is_stopped_ends_with_its_application() -> None:
    world = World()
    world.look()
    world.look()
    world.there[world.name] = ObservedRun(state=RunState.RUNNING, kind="Job")
    world.look(seconds=2)
    world.say("stop")
    assert (world.state, world.removed) == ("Stopped", [world.name])
    world.look(seconds=60)
    assert world.status.application is not None
    assert world.status.application.state is RunState.GONE
    assert len(world.jobs) == 1


def test_refreshed_while_it_measures_it_begins_when_the_other_is_gone() -> None:
    world = World()
    world.look()
    world.look()
    first = world.name
    staying = ObservedRun(state=RunState.RUNNING, kind="Job")
    world.annotate("refresh")
    world.look()
    assert world.removed == [first]
    world.look(seconds=2, seen=staying)
    world.look(seconds=2, seen=staying)
    assert world.removed == [first] * 3, "nothing may be there, however often it takes"
    assert (world.name, len(world.jobs)) == (first, 1)
    assert world.message() == "measuring starts when the previous application is removed"
    for _ in range(3):
        world.look(seconds=2)
    assert world.name != first
    assert (world.state, len(world.jobs)) == ("PendingProposal", 2)


@pytest.mark.parametrize("wish", list(Command))
@pytest.mark.parametrize("state", [one for one in RebalanceState if "Paused" not in one.value])
def test_what_is_not_possible_is_taken_away_and_told(wish: Command, state: RebalanceState) -> None:
    world = in_state(state)
    before = world.status
    if state in POSSIBLE[wish]:
        world.annotate(wish)
        world.look()
        assert world.told[-1] != "AnnotationRefused"
        return
    world.say(wish)
    assert "AnnotationRefused" in world.told
    assert (world.status.state, world.status.moves) == (before.state, before.moves)


def test_a_word_that_nobody_knows_is_told_with_those_that_are() -> None:
    world = World()
    world.propose(0)
    world.annotate("aprove" + "!" * 100)
    world.look()
    world.look()
    assert (world.annotation, world.state) == (None, "ProposalReady")
    assert world.told[-1] == "AnnotationRefused"


def test_paused_nothing_is_done_and_it_goes_on_where_it_was() -> None:
    world = World()
    world.propose(0)
    world.say("approve")
    world.pause(is_paused=True)
    world.annotate("stop")
    world.carry_out(0)
    for _ in range(3):
        world.look(seconds=60)
    assert (world.state, world.status.resumes) == (
        "ReconciliationPaused",
        RebalanceState.REBALANCING,
    )
    assert world.annotation == "stop"
    assert {one.type for one in world.status.conditions} == {"Ready", "ReconciliationPaused"}
    world.pause(is_paused=False)
    world.look()
    assert (world.state, world.status.resumes) == ("Ready", None)


def test_another_wish_is_measured_anew_and_ends_what_was_approved() -> None:
    world = World()
    world.propose(0)
    world.say("approve")
    world.change(concurrent_leader_movements=3)
    world.look()
    assert world.state == "Rebalancing"
    world.change(excluded_topics="x.*")
    world.look()
    assert (world.state, world.status.moves) == ("PendingProposal", None)
    world.look()
    assert len(world.jobs) == 2


def test_what_cannot_be_done_ends_what_goes_on_and_begins_when_it_can() -> None:
    wrong = Problem("spec.goals", "asks for what is not built yet", "remove it")
    world = World()
    world.look()
    world.look()
    world.look(problems=(wrong,))
    assert (world.state, world.removed) == ("NotReady", [world.name])
    assert world.message().startswith("spec.goals")
    world.look(seconds=2, problems=(wrong,))
    assert len(world.jobs) == 1
    world.look()
    world.look()
    assert (world.state, len(world.jobs)) == ("PendingProposal", 2)


EVERY_SECOND = frozenset(map(PartitionIndex, range(0, 2_000, 2)))


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ({"wait_reason": WaitReason("ClusterNotFound", "there is none")}, "ClusterNotFound"),
        ({"topics": []}, "NoTopics"),
        ({"topics": [f"t{one}" for one in range(10_001)]}, "TooManyTopics"),
        ({"topics": [f"{one:0249}" for one in range(2_000)]}, "TooManyTopics"),
        ({"pinned": {f"{one:0249}": EVERY_SECOND for one in range(4)}}, "TooManyAssignments"),
        ({"brokers": (BROKERS[2],)}, "NoBrokers"),
    ],
)
def test_what_is_missing_is_waited_for(view: dict[str, Any], reason: str) -> None:
    world = World()
    world.look(**view)
    world.look(seconds=15, **view)
    assert (world.state, world.ready(), world.status.runs) == ("New", ("False", reason), 0)
    world.look()
    assert world.state == "PendingProposal"
    world.look(**view)
    assert world.jobs == []
    world.look()
    assert len(world.jobs) == 1


def moving(partition: int, *replicas: int) -> dict[str, Any]:
    """What the job answers that moves this partition's replicas."""
    one = {"topic": "orders", "partition": partition, "replicas": list(replicas)}
    return {
        "replicaMoves": [{**one, "expectedReplicas": [1, 2, 3]}],
        "reassignment": {"version": 1, "partitions": [one]},
        "numReplicaMovements": 1,
        "dataToMoveMB": 12,
    }


def test_replicas_move_after_leaderships_and_both_are_counted() -> None:
    world = World()
    world.propose(0, **moving(1, 1, 2, 4))
    assert "1 replicas of 1 partitions would move (12 MB)" in world.message()
    world.say("approve")
    assert world.status.moves is not None
    assert (world.state, world.status.moves.total) == ("Rebalancing", 2)
    world.carry_out(0)
    world.look(seconds=2)
    assert world.status.moves.done == 1
    began = replace(
        world.maps[name(1)],
        replicas=(ONE, TWO, BrokerId(4), THREE),
        target=(ONE, TWO, BrokerId(4)),
        is_moving=True,
    )
    world.maps[name(1)] = began
    world.look(seconds=2)
    assert (world.state, world.status.moves.done) == ("Rebalancing", 1)
    world.maps[name(1)] = replace(began, replicas=began.target, is_moving=False)
    world.look(seconds=2)
    assert world.state == "Ready"
    assert world.message() == "2 of 2 moves are done"


def test_a_leader_move_is_done_when_the_replicas_of_its_partition_move() -> None:
    world = World()
    world.propose(0, **moving(0, 2, 1, 4))
    world.say("approve")
    world.carry_out(0)
    world.look(seconds=2)
    assert world.status.moves is not None
    assert world.status.moves.done == 1
    after = (TWO, ONE, BrokerId(4))
    world.maps[name(0)] = replace(world.maps[name(0)], replicas=after, target=after)
    world.look(seconds=2)
    assert (world.state, world.status.moves.done) == ("Ready", 2)


def test_replicas_that_have_moved_otherwise_are_left_out() -> None:
    world = World()
    world.propose(**moving(1, 1, 2, 4))
    world.say("approve")
    other = (ONE, TWO, BrokerId(5))
    world.maps[name(1)] = replace(world.maps[name(1)], replicas=other, target=other)
    world.look(seconds=2)
    assert (world.state, world.ready()) == ("NotReady", ("False", "MovesLeftOut"))
    assert "partition orders-1 has replicas 1,2,5 now" in world.message()


def test_a_proposal_without_moves_is_carried_out_at_once() -> None:
    world = World()
    world.propose()
    assert "no leadership needs to move" in world.message()
    world.say("approve")
    world.look()
    assert world.state == "Ready"


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ({"leaderMoves": [{"topic": "orders"}]}, "ResultInvalid"),
        ({"figures": None}, "ResultInvalid"),
        (
            {
                "leaderMoves": [
                    {
                        **leader_move_json(World().moves(0)[0]),
                        "replicas": [2, 1],
                    }
                ]
            },
            "ResultInvalid",
        ),
    ],
)
def test_a_result_that_does_not_read_is_a_failure(summary: dict[str, Any], reason: str) -> None:
    world = World()
    world.propose(0, **summary)
    assert (world.state, world.ready()) == ("NotReady", ("False", reason))
    assert world.status.proposal is None


def test_a_job_that_failed_is_not_tried_again_by_itself() -> None:
    world = in_state(RebalanceState.NOT_READY)
    assert world.ready() == ("False", "NotAuthorized")
    for _ in range(3):
        world.look(seconds=3_600)
    assert len(world.jobs) == 1
    world.say("refresh")
    world.look()
    assert len(world.jobs) == 2


def test_a_job_whose_image_is_too_old_names_the_image() -> None:
    world = World()
    world.look()
    world.look()
    told = failed(world.name, "InvalidRequest", "job.nodes is not a field of this kind: remove it")
    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=told)
    world.look()
    assert world.ready() == ("False", "InvalidRequest")
    assert world.message().endswith(
        "remove it; the Spark image is older than the operator: update spec.spark.image"
    )


def test_an_application_that_does_not_start_or_is_refused_has_failed() -> None:
    late = World()
    late.look()
    late.look()
    late.look(seconds=int(START_LIMIT.total_seconds()) + 1)
    assert (late.ready(), late.removed) == (("False", "NotStarted"), [late.name])

    refused = World()
    refused.look()
    refused.look(refusal="jobs.batch is forbidden: exceeded quota")
    assert (refused.state, refused.ready()) == ("NotReady", ("False", "LaunchRefused"))
    assert "exceeded quota" in refused.message()


def test_an_application_that_outlives_its_result_is_removed_after_some_time() -> None:
    world = World()
    world.look()
    world.look()
    result = measured(world.name, *world.moves(0))
    world.there[world.name] = ObservedRun(state=RunState.RUNNING, kind="Job", result=result)
    world.look()
    assert (world.state, world.removed) == ("ProposalReady", [])
    world.look(seconds=int(GRACE.total_seconds()) + 1)
    assert world.removed == [world.name]


@pytest.mark.parametrize("view", [{"seen": None}, {"move_bases": None}])
def test_nothing_is_concluded_from_what_is_not_known(view: dict[str, Any]) -> None:
    measuring = in_state(RebalanceState.PENDING_PROPOSAL)
    measuring.look()
    measuring.look(seconds=86_400, seen=None)
    assert measuring.state == "PendingProposal"

    world = World()
    world.propose(0)
    world.annotate("approve")
    world.look(move_bases=None)
    assert (world.state, world.annotation) == ("ProposalReady", "approve")
    world.look()
    assert world.state == "Rebalancing"
    world.maps.clear()
    world.look(move_bases=None)
    assert world.state == "Rebalancing"


def test_an_object_that_is_being_deleted_is_left_alone() -> None:
    world = World()
    about = world.rebalance.metadata
    world.rebalance = replace(world.rebalance, metadata=replace(about, deletion_timestamp=NOW))
    world.look()
    assert world.status == RebalanceStatus()


def test_how_it_is_approved_is_no_other_wish() -> None:
    spec = World().rebalance.spec
    assert spec_digest(spec) == spec_digest(replace(spec, approved_proposal="x"))
    assert spec_digest(spec) == spec_digest(replace(spec, replication_throttle=7))
    assert spec_digest(spec) != spec_digest(replace(spec, excluded_topics="x"))
