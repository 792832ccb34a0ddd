"""Planted bugs: each breaks one rule of the code on purpose, and the simulator must find it.

Without them, a simulator that finds nothing could be one that is not able to find anything.
"""

from typing import Final

from e2e.sim.mutants import (
    decisions,
    disks,
    groups,
    logs,
    moves,
    replication,
    restarts,
    topics,
    transactions,
    upkeep,
    users,
)
from e2e.sim.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: Final = (
    *disks.MUTANTS,
    *restarts.MUTANTS,
    *logs.MUTANTS,
    *replication.MUTANTS,
    *decisions.MUTANTS,
    *topics.MUTANTS,
    *moves.MUTANTS,
    *upkeep.MUTANTS,
    *groups.MUTANTS,
    *users.MUTANTS,
    *transactions.MUTANTS,
)
