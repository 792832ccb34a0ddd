"""Etcd is restored from an older backup while brokers and operators are running.

All objects are as in the backup, newer ones are gone, and watches get no events for that. The
revision goes back, too, so that resourceVersions are used again for other contents; or it was
raised and marked as compacted (`etcdutl snapshot restore --bump-revision --mark-compacted`), so
that old watches get `Gone`.
"""

import asyncio
from typing import Final

from e2e.sim.api_store import Backup
from e2e.sim.faults.stage import Act, Stage

LONGEST_S: Final = 60.0
BUMP: Final = 1_000_000


async def restore(stage: Stage) -> None:
    """Take a backup, and later stop the API server, restore the backup, and start it again."""
    copy = stage.world.store.backup()
    any_age_s = stage.chance.uniform(1.0, LONGEST_S)
    await asyncio.sleep(stage.mix.copy_age_s or any_age_s)
    await go_back(stage, copy)


async def go_back(stage: Stage, copy: Backup) -> None:
    """Stop the API server, restore the backup, and start the server again."""
    server, chance = stage.world.server, stage.chance
    if chance.random() < 0.5:
        # A server that shuts down cleanly ends its watches without an error.
        server.stop_watches()
    server.go_away()
    await asyncio.sleep(chance.uniform(0.2, 5.0))
    while not server.is_away:
        # Another fault started the server again; a restore needs a stopped one.
        server.go_away()
        await asyncio.sleep(chance.uniform(0.2, 1.0))
    stage.world.restore(copy, bump=chance.choice((0, BUMP)))
    server.is_away = False
    stage.count_effect("etcd went back")


ACTS: Final[dict[str, Act]] = {"etcd restored": restore}
