"""Changes of users at certain moments."""

import asyncio
from typing import Final

from e2e.sim.faults.scene import exclusive
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.users.accounts import PASSWORD, RIGHTS

AT_ONCE_S: Final = 0.5
LOST_S: Final = 8.0
"""How long the requests are lost; a request to the API server fails later."""


@exclusive
async def deny_while_reading(stage: Stage) -> None:
    """Deny a user everything while a broker waits for the Secret with changed passwords: its
    requests to the API server are lost, but events still arrive."""
    assert stage.users is not None, "only mixes with users name this"
    users, node = stage.users, stage.node()
    with_password = [one for one in users.accounts.all.values() if one.type == PASSWORD]
    if not all(one.exists for one in with_password):
        return
    changed, denied = stage.chance.choice(with_password), stage.chance.choice(with_password)
    stage.world.network.cut(node.host, "api")
    users.accounts.change_password(changed)
    await asyncio.sleep(AT_ONCE_S)
    users.set_rights(denied, allowed=RIGHTS, denied=RIGHTS)
    await asyncio.sleep(LOST_S)
    stage.world.network.heal()
    users.restore(denied)


ACTS: Final[dict[str, Act]] = {"denied while a Secret is read": deny_while_reading}
