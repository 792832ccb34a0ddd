"""Planted bugs: each breaks one rule on purpose, and the simulator must see it.

A simulator that finds nothing may be one that sees nothing.
"""

from typing import Final

from e2e.sim.mutants import decisions, disks, groups, logs, replication, restarts, topics
from e2e.sim.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: Final = (
    *disks.MUTANTS,
    *restarts.MUTANTS,
    *logs.MUTANTS,
    *replication.MUTANTS,
    *decisions.MUTANTS,
    *topics.MUTANTS,
    *groups.MUTANTS,
)
