"""Clocks of brokers and operators jump, or run too fast or too slowly."""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.loop import SimClock
from e2e.sim.operators import Operator

HOUR_S: Final = 3600.0
MOST_HOURS: Final = 30.0


def _any_clock(stage: Stage) -> SimClock:
    """The clock of a random broker or operator; counts that the fault hit it."""
    everybody: list[Node | Operator] = [*stage.world.nodes.values(), *stage.world.operators]
    one = stage.chance.choice(everybody)
    stage.world.count_hit(one)
    return one.clock


async def jump(stage: Stage) -> None:
    """Set a wall clock wrong by up to ten minutes, for the rest of the run."""
    _any_clock(stage).skew_s = stage.chance.uniform(-600.0, 600.0)


async def drift(stage: Stage) -> None:
    """Run a wall clock at half or double speed for a while, and its monotonic clock some percent
    too fast or too slowly."""
    clock = _any_clock(stage)
    clock.run_at(stage.chance.choice((0.5, 2.0)), stage.chance.uniform(0.96, 1.04))
    await asyncio.sleep(stage.chance.uniform(5.0, 30.0))
    clock.run_at(1.0, 1.0)


async def step(stage: Stage) -> None:
    """Step a clock by hours, forward or back; after a while set it right."""
    clock, chance = _any_clock(stage), stage.chance
    clock.skew_s = chance.choice((-1, 1)) * chance.uniform(1.0, MOST_HOURS) * HOUR_S
    stage.world.watch.observe()
    try:
        await asyncio.sleep(chance.uniform(3.0, 40.0))
    finally:
        stage.world.watch.observe()
        clock.skew_s = 0.0


ACTS: Final[dict[str, Act]] = {"clock jump": jump, "clock drift": drift}
LATER: Final[dict[str, Act]] = {"clock step": step}
"""Faults that only seeds from `FIRST_LATER` on draw."""
