"""Clocks jump, and run too fast or too slow."""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.loop import SimClock
from e2e.sim.operators import Operator

HOUR_S: Final = 3600.0
MOST_HOURS: Final = 30.0


def _any_clock(stage: Stage) -> SimClock:
    everybody: list[Node | Operator] = [*stage.world.nodes.values(), *stage.world.operators]
    one = stage.chance.choice(everybody)
    stage.world.hit(one)
    return one.clock


async def jump(stage: Stage) -> None:
    _any_clock(stage).skew_s = stage.chance.uniform(-600.0, 600.0)


async def drift(stage: Stage) -> None:
    """The wall's time at half or double speed, and the monotonic one by some percent."""
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
"""What only seeds draw that came later."""
