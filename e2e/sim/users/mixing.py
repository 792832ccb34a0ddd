"""The mix of a seed with users."""

import random
from dataclasses import replace
from typing import Final

from e2e.sim.faults import OF_ACCOUNTS, RESTORING, Mix
from e2e.sim.users.habits import UserHabits

KEPT_SHARE: Final = 0.4
"""Share of a seed's other faults that remain."""


def with_users(seed: int, mix: Mix) -> Mix:
    """The mix with users who log in, and changes of them.

    Etcd is not restored from backups: what was asked for since then would be lost. Nor do clocks
    step by hours.
    """
    chance = random.Random(f"users {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(sorted(OF_ACCOUNTS), chance.randint(3, len(OF_ACCOUNTS)))
    kept = {
        name: weight
        for name, weight in mix.weights.items()
        if name not in RESTORING and chance.random() < KEPT_SHARE
    }
    return replace(
        mix,
        weights=kept | {name: chance.uniform(0.3, 1.0) for name in chosen},
        every_s=chance.choice((2.0, 4.0)),
        faults_s=chance.choice((60.0, 60.0, 60.0, 300.0)),
        producers=2,
        consumers=1,
        pause_s=6.0,
        users=UserHabits(
            with_passwords=chance.choice((1, 2)),
            with_certificates=chance.choice((1, 2)),
            pause_s=chance.choice((0.5, 1.0)),
            reauth_s=chance.choice((0.0, 5.0, 15.0)),
        ),
    )
