"""Faults and changes by users, each known by its name; one module for each family of them.

Each module has `ACTS`: name -> coroutine function. Append a new module to `FAMILIES`: the order
decides what existing seeds draw.
"""

import asyncio
import random
from typing import Final

from e2e.sim.faults import (
    accounts,
    admins,
    api_server,
    cascades,
    clocks,
    decay,
    directed,
    directed_disks,
    directed_moves,
    directed_upkeep,
    directed_users,
    disk_errors,
    disks,
    groups,
    mistakes,
    move_steps,
    moves,
    network,
    processes,
    refusals,
    restores,
    rot,
    sequences,
    transactions,
    upkeep,
    user_tools,
    users,
    volumes,
)
from e2e.sim.faults.stage import Act, Mix, Stage
from e2e.sim.groups.crowd import Crowd
from e2e.sim.roles import ACTING
from e2e.sim.transactions.crowd import Transactors
from e2e.sim.users.crowd import Users
from e2e.sim.world import World

__all__ = [
    "FAULT_NAMES",
    "LATER",
    "OF_ACCOUNTS",
    "OF_GROUPS",
    "OF_MEDIA",
    "OF_MOVES",
    "OF_STEPS",
    "OF_TRANSACTIONS",
    "OF_UPKEEP",
    "OF_USERS",
    "RESTORING",
    "ROTTING",
    "Act",
    "Faults",
    "Mix",
    "Stage",
    "possible",
]

FAMILIES: Final = (
    processes,
    api_server,
    network,
    disks,
    clocks,
    restores,
    sequences,
    rot,
    users,
    refusals,
    admins,
    cascades,
    mistakes,
    disk_errors,
    decay,
    volumes,
)
ALL_ACTS: Final[dict[str, Act]] = {
    name: act for family in FAMILIES for name, act in family.ACTS.items()
}
FAULT_NAMES: Final = tuple(ALL_ACTS)
DIRECTED: Final[dict[str, Act]] = {
    **directed.ACTS,
    **directed_disks.ACTS,
    **directed_moves.ACTS,
    **directed_upkeep.ACTS,
    **directed_users.ACTS,
}
"""Faults that only the mixes of planted bugs name: no seed draws them."""
OF_GROUPS: Final[dict[str, Act]] = {**groups.ACTS}
"""Faults that only seeds with consumer groups draw."""
OF_MEDIA: Final = (*disk_errors.ACTS, *decay.ACTS, *volumes.ACTS)
"""Names of faults of disks and volumes; they are drawn from a separate random stream."""
OF_MOVES: Final[dict[str, Act]] = {**moves.ACTS}
"""Moves of replicas, which only seeds from `seed.FIRST_MOVING` on draw."""
OF_STEPS: Final[dict[str, Act]] = {**move_steps.ACTS}
"""Faults that hit moves at their steps, which only seeds from `seed.FIRST_STEPPING` on draw."""
OF_UPKEEP: Final[dict[str, Act]] = {**upkeep.ACTS}
"""What those who run a cluster do, which only seeds from `seed.FIRST_UPKEEP` on draw."""
OF_ACCOUNTS: Final[dict[str, Act]] = {**accounts.ACTS, **user_tools.ACTS}
"""Changes of users who log in, which only seeds from `seed.FIRST_SECURED` on draw."""
OF_TRANSACTIONS: Final[dict[str, Act]] = {**transactions.ACTS}
"""Faults of transactions, which only seeds from `seed.FIRST_TRANSACTIONAL` on draw."""
LATER: Final[dict[str, Act]] = {**clocks.LATER, **users.LATER}
"""Faults that were added later, and that only seeds from `FIRST_LATER` on draw, so that older
seeds stay as they were."""
EVERY_ACT: Final[dict[str, Act]] = {
    **ALL_ACTS,
    **OF_GROUPS,
    **DIRECTED,
    **LATER,
    **OF_MOVES,
    **OF_STEPS,
    **OF_UPKEEP,
    **OF_ACCOUNTS,
    **OF_TRANSACTIONS,
}
"""All that a mix can name. New ones come last: the order decides what existing seeds draw."""
ROTTING: Final = frozenset({*rot.ACTS, *decay.ACTS})
"""Names of faults that change stored bytes."""
OF_USERS: Final = (*users.ACTS, *admins.ACTS, *mistakes.ACTS)
"""Names of changes and requests by users, which happen beside the faults."""
RESTORING: Final = frozenset({*restores.ACTS, *move_steps.RESTORING})
"""Names of faults that restore etcd from a backup."""
OF_SPECS: Final = frozenset(
    {*OF_USERS, *users.LATER, *moves.OF_SPECS, *upkeep.OF_SPECS, *accounts.ACTS, *user_tools.ACTS}
)
"""Names of faults that change the specs of Topics and of the cluster."""


def possible(mix: Mix) -> list[str]:
    """Names of the faults in a mix, always in the same order.

    If etcd may be restored from a backup, users change no specs: their changes since the backup
    would be lost, so nothing could be expected of them.
    """
    names = [name for name in EVERY_ACT if mix.weights.get(name)]
    if any(name in RESTORING for name in names):
        names = [name for name in names if name not in OF_SPECS]
    return names


class Faults:
    """Starts the faults of a mix at random times; each fault ends by itself after a while."""

    def __init__(
        self,
        world: World,
        mix: Mix,
        chance: random.Random,
        crowd: Crowd | None = None,
        users: Users | None = None,
        transactors: Transactors | None = None,
    ) -> None:
        self._stage = Stage(world, mix, chance, crowd, users, transactors)
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Start faults for this many seconds, then cancel those that still run.

        `World.heal` reverts what these began.
        """
        world, mix, chance = self._stage.world, self._stage.mix, self._stage.chance
        end_s = world.loop.time() + seconds
        names = possible(mix)
        weights = [mix.weights[name] for name in names]
        while names:
            await asyncio.sleep(chance.expovariate(1 / mix.every_s))
            if world.loop.time() >= end_s:
                break
            (name,) = chance.choices(names, weights)
            world.faults[name] += 1
            world.trace("fault", name)
            task = world.loop.create_task(self._act(name), name=name)
            self._running.add(task)
            task.add_done_callback(self._acted)
        await asyncio.sleep(max(end_s - world.loop.time(), 0.0))
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _acted(self, task: asyncio.Task[None]) -> None:
        """Note an exception in a fault's own code as a problem of the run."""
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            problem = f"{task.get_name()}: {type(error).__name__}: {error}"
            self._stage.world.notebook.problems.append(problem)

    async def _act(self, name: str) -> None:
        """Run the fault of this name, which `count_hit` reads from `ACTING`."""
        ACTING.set(name)
        await EVERY_ACT[name](self._stage)

    def settle(self) -> None:
        """Do what only users can do so that the cluster comes to rest, after the faults."""
        if self._stage.world.upkeep_watch is not None:
            upkeep.settle(self._stage)
