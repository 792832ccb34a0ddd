"""Rebalances that annotations approve automatically, or make templates."""

from dataclasses import replace

from chiplog_core.ids import LeaderEpoch
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.model.spark_run import RunState
from chiplog_core.naming import labels
from chiplog_core.spark.rebalance_steps import MAX_AUTOMATIC_RUNS
from chiplog_core.spark.runs import ObservedRun
from tests.spark.rebalances import World, in_state, measured, name


def annotate(world: World, key: str, value: str | None) -> None:
    about = world.rebalance.metadata
    kept = {one: text for one, text in about.annotations.items() if one != key}
    if value is not None:
        kept[key] = value
    world.rebalance = replace(world.rebalance, metadata=replace(about, annotations=kept))


def approving(value: str = "true") -> World:
    world = World()
    annotate(world, labels.REBALANCE_AUTO_APPROVAL, value)
    return world


def warning(world: World) -> str:
    return "".join(one.message for one in world.status.conditions if one.type == "Warning")


def test_every_proposal_is_approved_and_the_annotation_stays() -> None:
    world = approving()
    world.propose(0)
    assert world.state == "ProposalReady", "its topics were not looked at yet"
    world.look()
    assert world.state == "Rebalancing"
    world.carry_out(0)
    world.look()
    assert (world.state, warning(world)) == ("Ready", "")
    world.say("refresh")
    world.look()
    world.answer(1)
    world.look()
    assert world.state == "Rebalancing"


def test_a_proposal_without_moves_is_done_at_once() -> None:
    world = approving()
    world.propose()
    world.look()
    world.look()
    assert (world.state, world.ready()) == ("Ready", ("True", "Ready"))


def test_a_proposal_that_cannot_be_carried_out_is_refused_once() -> None:
    world = approving()
    world.propose(numReplicaMovements=5, dataToMoveMB=7)
    for _ in range(3):
        world.look()
        assert (world.state, world.ready()) == ("ProposalReady", ("False", "NotExecutable"))
    assert "exclude topics" in world.message()
    assert world.told.count("NotExecutable") == 1


def test_nothing_else_than_true_approves() -> None:
    for value in ("false", "yes"):
        world = approving(value)
        world.propose(0)
        world.look(seconds=100)
        assert world.state == "ProposalReady"
        assert (labels.REBALANCE_AUTO_APPROVAL in warning(world)) is (value == "yes")


def elect(world: World) -> None:
    """Another leader epoch, so that every proposal made before is outdated."""
    before = world.maps[name(0)]
    epoch = LeaderEpoch(before.leader_epoch + 1)
    world.maps[name(0)] = replace(before, leader_epoch=epoch)


def test_an_outdated_proposal_is_replaced_but_not_for_ever() -> None:
    world = approving()
    for run in range(1, MAX_AUTOMATIC_RUNS + 1):
        world.look()
        world.look()
        assert (world.state, world.status.runs) == ("PendingProposal", run)
        result = measured(world.name, *world.moves(0))
        elect(world)
        world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, kind="Job", result=result)
        world.look(seconds=20)
        world.look()
    assert (world.state, world.ready()) == ("ProposalReady", ("False", "ProposalOutdated"))
    world.look(seconds=100)
    assert world.status.runs == MAX_AUTOMATIC_RUNS


def test_moves_that_were_left_out_are_proposed_again() -> None:
    for value, states in (("true", ("PendingProposal", 2)), ("false", ("NotReady", 1))):
        world = approving(value)
        world.propose(0)
        world.look()
        if value == "false":
            world.say("approve")
        assert world.state == "Rebalancing"
        elect(world)
        world.look()
        world.look()
        assert (world.state, world.status.runs) == states


def test_a_template_is_not_carried_out_and_says_so() -> None:
    world = World()
    annotate(world, labels.REBALANCE_TEMPLATE, "true")
    world.look()
    world.look(seconds=100)
    assert (world.state, world.ready(), world.jobs) == ("New", ("True", "Template"), [])
    annotate(world, labels.REBALANCE_TEMPLATE, None)
    world.look()
    world.look()
    assert (world.state, len(world.jobs)) == ("PendingProposal", 1)


def test_what_becomes_a_template_ends_what_it_had_begun() -> None:
    for state in (RebalanceState.PENDING_PROPOSAL, RebalanceState.REBALANCING):
        world = in_state(state)
        annotate(world, labels.REBALANCE_TEMPLATE, "perhaps")
        world.look()
        assert (world.state, world.status.proposal) == ("New", None)
        assert labels.REBALANCE_TEMPLATE in warning(world)
        assert bool(world.removed) is (state is RebalanceState.PENDING_PROPOSAL)
