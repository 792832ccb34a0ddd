"""Resets are asked for until their coordinator has said what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from chiplog_core.group_watch.resets import AGAIN_MS, REFUSED_FOR_GOOD, RETRY_MS
from chiplog_core.group_watch.watch import ObservedGroup
from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.model.actions import Announce
from chiplog_core.model.consumer_group import (
    ConsumerGroup,
    ConsumerGroupSpec,
    Reset,
    ResetStrategy,
    WhileActive,
)
from chiplog_core.model.group_exchange import (
    GroupFacts,
    Positions,
    PositionsRequest,
    ResetAnswer,
    ResetRequest,
)
from chiplog_core.model.group_status import ResetOffset, ResetState, ResetStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_operator.groups.resetting import Resetting
from chiplog_operator.writes import NotActive

RESET = Reset(id="one", strategy=ResetStrategy.TO_EARLIEST, dry_run=False)
MOVED = (ResetOffset(topic="t", partition=PartitionIndex(0), offset=5, new_offset=Offset(0)),)


@dataclass
class Coordinator:
    """Runs each id once, and refuses while there are members."""

    members: int = 0
    is_silent: bool = False
    asked: list[ResetRequest] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    async def positions(
        self, requests: Mapping[BrokerId, Sequence[PositionsRequest]]
    ) -> Sequence[Positions]:
        assert not requests, "there are no topics"
        return ()

    async def reset(self, broker_id: BrokerId, asked: ResetRequest) -> ResetAnswer | None:
        assert broker_id == 1
        self.asked.append(asked)
        return None if self.is_silent else self.answered(asked)

    def answered(self, asked: ResetRequest) -> ResetAnswer:
        reset, message = asked.reset, ""
        offsets: tuple[ResetOffset, ...] = MOVED
        if reset.id in self.done:
            state = ResetState.DONE
        elif reset.dry_run:
            state = ResetState.PLANNED
        elif self.members and reset.while_active is WhileActive.REFUSE:
            state, message, offsets = ResetState.REFUSED, "the group has members", ()
        else:
            state = ResetState.DONE
            self.done.append(reset.id)
            self.members = 0
        return ResetAnswer(
            group_id=asked.group_id, id=reset.id, state=state, message=message, offsets=offsets
        )


class Shell:
    """One ConsumerGroup, its coordinator, and what is published."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.coordinator = Coordinator()
        self.events: list[str] = []
        self.group = ConsumerGroup(
            metadata=Metadata(name="g", namespace="shop", uid="u", generation=1),
            spec=ConsumerGroupSpec(cluster_ref=ClusterRef(name="demo")),
        )
        self.begin()

    def begin(self) -> None:
        """A new operator process."""
        self.resetting = Resetting(
            clock=self.bench.clock, authority=self.bench.authority, events=self
        )

    async def announce(self, event: Announce) -> None:
        self.events.append(f"{event.reason}: {event.message}")

    def apply(self, reset: Reset | None) -> None:
        """The manifest, which has another generation only where it says something else."""
        if reset == self.group.spec.reset:
            return
        meta = replace(self.group.metadata, generation=self.group.metadata.generation + 1)
        spec = replace(self.group.spec, reset=reset)
        self.group = replace(self.group, metadata=meta, spec=spec)

    async def look(self, after_ms: int = 1, *, publishes: bool = True) -> ResetStatus | None:
        await self.bench.clock.advance(after_ms / 1000)
        facts = GroupFacts(group_id="g", member_count=self.coordinator.members)
        observed = ObservedGroup(
            group=self.group, facts=facts, coordinator=BrokerId(1), lags=None, may_change=True
        )
        found = (await self.resetting.reconcile([observed], self.coordinator, lambda _: None)).get(
            "u"
        )
        if publishes and found is not None:
            status = replace(self.group.status, reset=found)
            self.group = replace(self.group, status=status)
        return found


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


def test_applied_three_times_it_runs_once(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        for _ in range(3):
            shell.apply(RESET)
            for _ in range(3):
                found = await shell.look(RETRY_MS)
                assert found is not None
                assert (found.state, found.offsets) == (ResetState.DONE, MOVED)
        assert (shell.coordinator.done, len(shell.coordinator.asked)) == (["one"], 1)
        assert shell.events == [
            "OffsetsReset: reset one has moved the offsets of 1 partition as requested"
        ]

    bench.run(scenario())


def test_removed_and_applied_again_it_runs_once(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.apply(RESET)
        await shell.look()
        shell.apply(None)
        assert await shell.look() is None
        shell.apply(RESET)
        await shell.look()
        assert (shell.coordinator.done, len(shell.coordinator.asked)) == (["one"], 1)
        assert len(shell.events) == 1

    bench.run(scenario())


def test_a_new_operator_asks_and_nothing_runs_twice(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.apply(RESET)
        first = await shell.look(publishes=False)
        shell.begin()
        second = await shell.look()
        assert first is not None
        assert second is not None
        assert (first.state, first.offsets) == (second.state, second.offsets)
        assert shell.coordinator.done == ["one"]

    bench.run(scenario())


@pytest.mark.parametrize("change", ["another operator", "another field of the manifest"])
def test_what_is_done_is_not_done_again_for_a_group_that_was_gone(
    bench: Any, shell: Shell, change: str
) -> None:
    """With a group that is deleted or expires its coordinator forgets which ids it ran."""

    async def scenario() -> None:
        shell.apply(RESET)
        await shell.look()
        shell.coordinator.done.clear()
        if change == "another operator":
            shell.begin()
        else:
            meta = replace(shell.group.metadata, generation=shell.group.metadata.generation + 1)
            shell.group = replace(shell.group, metadata=meta)
        await shell.look(RETRY_MS)
        assert shell.coordinator.done == [], "its offsets were moved once more"

    bench.run(scenario())


def test_what_could_not_be_published_is_told_again(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.apply(RESET)
        first = await shell.look(publishes=False)
        assert await shell.look(publishes=False) is first
        assert len(shell.coordinator.asked) == 1

    bench.run(scenario())


def test_from_plan_to_run_under_one_id(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.apply(replace(RESET, dry_run=True))
        found = await shell.look()
        assert found is not None
        assert found.state is ResetState.PLANNED
        await shell.look(RETRY_MS)
        assert (len(shell.coordinator.asked), shell.events) == (1, [])
        shell.apply(RESET)
        found = await shell.look()
        assert found is not None
        assert found.state is ResetState.DONE

    bench.run(scenario())


def test_refused_while_there_are_members_and_done_under_another_id(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        shell.coordinator.members = 2
        shell.apply(RESET)
        for _ in range(3):
            found = await shell.look()
            assert found is not None
            assert found.state is ResetState.REFUSED
            assert found.message == "the group has members" + REFUSED_FOR_GOOD
        assert len(shell.coordinator.asked) == 1
        # As in the next deploy: its consumers are gone for a moment.
        shell.coordinator.members = 0
        await shell.look(10 * RETRY_MS)
        shell.apply(RESET)
        await shell.look(10 * RETRY_MS)
        assert len(shell.coordinator.asked) == 1
        shell.apply(replace(RESET, id="another"))
        found = await shell.look()
        assert found is not None
        assert found.state is ResetState.DONE
        assert [one.split(":")[0] for one in shell.events] == ["ResetRefused", "OffsetsReset"]

    bench.run(scenario())


def test_members_are_fenced_where_the_manifest_comes_to_say_so(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.coordinator.members = 2
        shell.apply(RESET)
        await shell.look()
        shell.apply(replace(RESET, while_active=WhileActive.FENCE))
        found = await shell.look()
        assert found is not None
        assert found.state is ResetState.DONE

    bench.run(scenario())


def test_who_is_not_in_charge_resets_nothing(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.apply(RESET)
        bench.authority.held = False
        with pytest.raises(NotActive):
            await shell.look()
        assert shell.coordinator.asked == []

    bench.run(scenario())


def test_a_coordinator_that_says_nothing_is_asked_until_it_does(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        shell.coordinator.is_silent = True
        shell.apply(RESET)
        found = await shell.look()
        assert found is not None
        assert found.state is ResetState.RUNNING
        await shell.look(AGAIN_MS)
        assert len(shell.coordinator.asked) == 2
        shell.coordinator.is_silent = False
        found = await shell.look(AGAIN_MS)
        assert found is not None
        assert found.state is ResetState.DONE
        assert shell.coordinator.done == ["one"]

    bench.run(scenario())
