"""What every fault is given: the world, how much of what goes wrong, and chance."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from e2e.sim.clients import Habits
from e2e.sim.groups.crowd import Crowd
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.kubelet import Node
from e2e.sim.operators import Operator
from e2e.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How much of what: drawn from the seed."""

    brokers: int = 3
    operators: int = 2
    replicas: int = 1
    faults_s: float = 100.0
    every_s: float = 6.0
    weights: dict[str, float] = field(default_factory=dict)
    producers: int = 3
    consumers: int = 2
    """In no group: they assign their partitions themselves."""
    pause_s: float = 1.2
    """A producer waits up to so long between two batches for a partition."""
    habits: Habits = Habits()  # noqa: RUF009 - never changed
    topic_config: dict[str, str] = field(default_factory=dict)
    cluster_config: dict[str, str] = field(default_factory=dict)
    compacted_config: dict[str, str] = field(default_factory=dict)
    """Of the topic "clicks", beside `topic_config`: where its keys come again it is compacted."""
    reads_in_racks: bool = False
    """Whether consumers name racks, and brokers send them there (KIP-392)."""
    copy_age_s: float = 0.0
    """etcd goes back by so much; 0 where chance says by how much, which is not long."""
    groups: GroupHabits | None = None
    """How consumer groups are; None where there are none."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What faults act on. `World.heal` reverts what a fault began and did not revert."""

    world: World
    mix: Mix
    chance: random.Random
    crowd: Crowd | None = None
    """All groups, where there are any."""

    def node(self) -> Node:
        """Any broker's."""
        one = self.world.nodes[self.chance.choice(sorted(self.world.nodes))]
        self.world.hit(one)
        return one

    def operator(self) -> Operator:
        """The active one or a standby."""
        one = self.chance.choice(self.world.operators)
        self.world.hit(one)
        return one

    def count_effect(self, name: str) -> None:
        """Count a fault that was armed before and has had its effect now."""
        self.world.faults[name] += 1


Act = Callable[[Stage], Awaitable[None]]
"""Goes wrong, waits, and is well again; may be cancelled while it waits."""
