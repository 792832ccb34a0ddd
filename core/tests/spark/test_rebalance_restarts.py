"""A Rebalance whose operator dies anywhere, and one that is never approved."""

from collections.abc import Callable

from hypothesis import event, given, settings
from hypothesis import strategies as st

from chiplog_core.model.spark_run import RunState
from chiplog_core.naming import labels
from chiplog_core.spark.runs import ObservedRun
from tests.spark.rebalances import World, measured


def story(world: World, look: Callable[[], None]) -> None:
    """From nothing to leaderships that moved, with a refresh and an approval in between."""

    def until(state: str) -> None:
        for _ in range(30):
            if world.state == state and world.annotation is None:
                return
            look()
        raise AssertionError(f"{world.state} and not {state}: {world.told}")

    def measure() -> None:
        for _ in range(30):
            found = world.seen() if world.status.finished_at is None else None
            if found is not None and found.state is RunState.PENDING:
                result = measured(world.name, *world.moves(0, 1))
                world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=result)
                return
            look()
        raise AssertionError(f"not launched: {world.state}")

    measure()
    until("ProposalReady")
    first = world.name
    world.annotate("refresh")
    look()
    for _ in range(30):
        if world.name != first:
            break
        look()
    measure()
    until("ProposalReady")
    world.annotate("approve")
    until("Rebalancing")
    world.carry_out(0)
    look()
    world.carry_out(1)
    until("Ready")


@settings(max_examples=150, deadline=None)
@given(deaths=st.lists(st.sampled_from(["", "", "actions", "status"]), max_size=40))
def test_an_operator_that_dies_anywhere_leaves_one_story(deaths: list[str]) -> None:
    world, left = World(), list(deaths)

    def look() -> None:
        dies = left.pop(0) if left else ""
        event(f"dies before its {dies}" if dies else "lives")
        world.look(seconds=2, dies=dies)

    story(world, look)

    assert world.status.runs == 2
    assert len(world.jobs) == 2
    assert world.told.count("Approved") == 1
    assert world.told.count("Rebalanced") == 1
    assert world.status.moves is not None
    assert (world.status.moves.done, world.status.moves.left_out) == (2, 0)
    assert "AnnotationRefused" not in world.told


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_without_an_approval_nothing_is_ever_ordered(data: st.DataObject) -> None:
    """In any order of events: Rebalancing only after an approval of that very proposal."""
    world = World()
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(
            st.sampled_from(["look", "refresh", "stop", "?", "result", "fail", "gone", "pause"])
        ):
            case "result" if world.status.application is not None:
                if world.name in world.there:
                    result = measured(world.name, *world.moves(0))
                    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=result)
            case "fail" if world.status.application is not None:
                world.there[world.name] = ObservedRun(state=RunState.FAILED, must_be_stopped=True)
            case "gone" if world.status.application is not None:
                world.there.pop(world.name, None)
            case "pause":
                is_paused = labels.PAUSE in world.rebalance.metadata.annotations
                world.pause(is_paused=not is_paused)
            case "refresh" | "stop" | "?" as said:
                world.annotate(said)
        world.look(seconds=data.draw(st.integers(0, 90)))
        assert world.state != "Rebalancing"
        assert world.status.moves is None
        assert len([one for one in world.there.values() if one.state is RunState.PENDING]) <= 1
