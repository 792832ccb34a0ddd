"""The API server is away, refuses requests, loses answers, is slow, or forgets its history."""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage


async def api_away(stage: Stage) -> None:
    """Let the API server refuse all requests for up to 30 s; its watches break."""
    stage.world.server.go_away()
    await asyncio.sleep(stage.chance.uniform(0.5, 30.0))
    stage.world.server.is_away = False


async def api_struggles(stage: Stage) -> None:
    """For a while, refuse requests, lose answers and delay watch events."""
    server = stage.world.server
    server.refused_share = stage.chance.uniform(0.0, 0.4)
    server.lost_answer_share = stage.chance.uniform(0.0, 0.3)
    server.watch_delay_s = stage.chance.choice((0.0, 0.2, 2.0))
    await asyncio.sleep(stage.chance.uniform(2.0, 20.0))
    server.refused_share = server.lost_answer_share = server.watch_delay_s = 0.0


async def break_watches(stage: Stage) -> None:
    stage.world.server.break_watches(stage.chance.uniform(0.2, 1.0))


async def compact(stage: Stage) -> None:
    """Forget the history of changes, so that half of the watches have to begin with a new list."""
    stage.world.store.compact()
    stage.world.server.break_watches(0.5)


async def late_writes(stage: Stage) -> None:
    """Let the API server carry out some writes seconds after they were sent, when the client may be
    gone."""
    server = stage.world.server
    server.late_share = stage.chance.uniform(0.05, 0.4)
    await asyncio.sleep(stage.chance.uniform(2.0, 20.0))
    server.late_share = 0.0


ACTS: Final[dict[str, Act]] = {
    "API server away": api_away,
    "API server struggling": api_struggles,
    "watches broken": break_watches,
    "history compacted": compact,
    "API writes late": late_writes,
}
