"""The mix of a seed with transactions."""

import random
from dataclasses import replace
from typing import Final

from chiplog_core.config.broker_keys import LOG_CLEANER_BACKOFF_MS
from chiplog_core.config.transaction_keys import (
    TRANSACTION_ABORT_INTERVAL_MS,
    TRANSACTION_LOG_NUM_PARTITIONS,
)
from e2e.sim.faults import OF_SPECS, OF_TRANSACTIONS, RESTORING, Mix
from e2e.sim.transactions.habits import TransactionHabits

KEPT_SHARE: Final = 0.5
"""Share of a seed's other faults that remain."""
MOVES: Final = ("partitions reassigned", "broker added", "broker removed", "rolling restart")
"""Changes by users that move replicas and coordinators."""
MOVES_SHARE: Final = 0.3
"""Share of the seeds with each of these changes."""
INTERNAL: Final[tuple[dict[str, str], ...]] = (
    {},
    {TRANSACTION_LOG_NUM_PARTITIONS.name: "2"},
    {TRANSACTION_ABORT_INTERVAL_MS.name: "1000"},
    # So that transactions are compacted, and loaded from what is left.
    {"log.roll.ms": "4000", LOG_CLEANER_BACKOFF_MS.name: "3000"},
)
"""Settings of the cluster, of which a seed draws one."""
CLOCKS: Final = frozenset({"clock jump", "clock step"})
"""Faults of clocks that end transactions, and forget transactional ids, too early."""


def with_transactions(seed: int, mix: Mix) -> Mix:
    """The mix with transactional producers, their faults, moves of replicas, and few other clients.

    Users do nothing by which a record of a transaction is deleted. Nor is etcd restored.
    """
    chance = random.Random(f"transactions {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(sorted(OF_TRANSACTIONS), chance.randint(2, len(OF_TRANSACTIONS)))
    kept = {
        name: weight
        for name, weight in mix.weights.items()
        if name not in {*RESTORING, *OF_SPECS, *CLOCKS} and chance.random() < KEPT_SHARE
    }
    moves = [name for name in MOVES if chance.random() < MOVES_SHARE]
    # Each batch gets an index entry of 12 bytes, and a full index ends the segment.
    small = {"index.interval.bytes": "0", "segment.index.bytes": "240"}
    return replace(
        mix,
        brokers=mix.brokers + (chance.choice((0, 1)) if moves else 0),
        weights=kept | {name: chance.uniform(0.3, 1.0) for name in (*chosen, *moves)},
        cluster_config=mix.cluster_config | chance.choice(INTERNAL),
        every_s=chance.choice((2.0, 4.0, 8.0)),
        faults_s=chance.choice((60.0, 60.0, 120.0)),
        topic_config=chance.choice(({}, small)),
        producers=1,
        consumers=1,
        pause_s=10.0,
        groups=None,
        transactions=TransactionHabits(
            reuses_epoch_share=chance.choice((0.0, 0.0, 0.5)),
            producers=chance.choice((1, 2, 3)),
            partitions=chance.choice((1, 2, 3)),
            timeout_s=chance.choice((6.0, 12.0, 30.0)),
            pause_s=chance.choice((0.1, 0.5, 1.5)),
            second_share=chance.choice((0.0, 0.5, 0.5, 1.0, 1.0)),
            last_epoch=chance.choice((0, 0, 4, 9)),
            overtaking_share=chance.choice((0.0, 0.0, 0.1)),
            overtakes_offsets=True,
        ),
    )
