"""The mix of a seed, and the arguments of every fault: the world, the mix and a random stream."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from e2e.sim.clients import Habits
from e2e.sim.groups.crowd import Crowd
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.kubelet import Node
from e2e.sim.operators import Operator
from e2e.sim.transactions.crowd import Transactors
from e2e.sim.transactions.habits import TransactionHabits
from e2e.sim.users.crowd import Users
from e2e.sim.users.habits import UserHabits
from e2e.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The size, load and faults of one simulation; usually drawn from its seed."""

    brokers: int = 3
    operators: int = 2
    replicas: int = 1
    faults_s: float = 100.0
    """How long faults are started."""
    every_s: float = 6.0
    """Average time between two faults."""
    weights: dict[str, float] = field(default_factory=dict)
    """Fault -> its relative frequency."""
    producers: int = 3
    consumers: int = 2
    """Consumers without a group, which assign their partitions themselves."""
    pause_s: float = 1.2
    """The longest pause of a producer between two batches for a partition."""
    habits: Habits = Habits()  # noqa: RUF009 - never changed
    topic_config: dict[str, str] = field(default_factory=dict)
    cluster_config: dict[str, str] = field(default_factory=dict)
    compacted_config: dict[str, str] = field(default_factory=dict)
    """Additional settings of the topic "clicks", which is compacted if keys are repeated."""
    reads_in_racks: bool = False
    """Whether consumers name their rack, and read from a replica in it (KIP-392)."""
    copy_age_s: float = 0.0
    """Age of the backup from which etcd is restored; 0 for a random age of up to a minute."""
    groups: GroupHabits | None = None
    """Behaviour of consumer groups; None for no groups."""
    users: UserHabits | None = None
    """Users who log in, and their clients; None for a cluster without logins."""
    transactions: TransactionHabits | None = None
    """Transactional producers and readers of committed records; None for none."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The arguments of a fault. `World.heal` reverts what a fault began and did not revert."""

    world: World
    mix: Mix
    chance: random.Random
    crowd: Crowd | None = None
    """The consumer groups; None if the seed has none."""
    users: Users | None = None
    """The users who log in; None if the seed has none."""
    transactors: Transactors | None = None
    """The transactional producers; None if the seed has none."""

    def node(self) -> Node:
        """A random broker's node; counts that the fault hit it."""
        one = self.world.nodes[self.chance.choice(sorted(self.world.nodes))]
        self.world.count_hit(one)
        return one

    def operator(self) -> Operator:
        """A random operator, active or standby; counts that the fault hit it."""
        one = self.chance.choice(self.world.operators)
        self.world.count_hit(one)
        return one

    def count_effect(self, name: str) -> None:
        """Count an effect under its own name, for faults that wait for a moment to take effect."""
        self.world.faults[name] += 1


Act = Callable[[Stage], Awaitable[None]]
"""A fault: it begins, waits, and ends what it began. It may be cancelled while it waits."""
