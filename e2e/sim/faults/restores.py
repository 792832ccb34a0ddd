"""An etcd that is restored to a copy of some time ago, with brokers and operators running.

All objects are as they were, what was made since is gone, and no watch tells of it. The revision
goes back with them, so that version numbers mean something else from then on; or it was bumped
and marked as compacted (`etcdutl snapshot restore --bump-revision --mark-compacted`), so that
old watches are `Gone`.
"""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage

LONGEST_S: Final = 60.0
BUMP: Final = 1_000_000


async def restore(stage: Stage) -> None:
    """Copy now, restore after a while: API servers stop, and come back with the copy."""
    server, store, chance = stage.world.server, stage.world.store, stage.chance
    copy = store.backup()
    any_age_s = chance.uniform(1.0, LONGEST_S)
    await asyncio.sleep(stage.mix.copy_age_s or any_age_s)
    if chance.random() < 0.5:
        # A server that stops in good order ends its watches so.
        server.stop_watches()
    server.go_away()
    await asyncio.sleep(chance.uniform(0.2, 5.0))
    while not server.is_away:
        # Something else brought it back meanwhile, and nobody restores below a running server.
        server.go_away()
        await asyncio.sleep(chance.uniform(0.2, 1.0))
    store.restore(copy, bump=chance.choice((0, BUMP)))
    stage.world.trace_of_decisions.restored()
    server.is_away = False
    stage.count_effect("etcd went back")


ACTS: Final[dict[str, Act]] = {"etcd restored": restore}
