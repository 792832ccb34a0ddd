"""Planted bugs: each breaks one rule on purpose, and the simulator must see it.

A simulator that finds nothing may be one that sees nothing.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from chiplog_broker.partitions.followers import Followers
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.producers import ProducerStates
from e2e.sim import disk
from e2e.sim.faults import Mix


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, by what is put in whose place, and the faults that show it."""

    name: str
    target: Any
    attribute: str
    bug: Any
    mix: Mix
    shows: frozenset[str]

    @contextmanager
    def planted(self) -> Iterator[None]:
        sound = self.target.__dict__[self.attribute]
        setattr(self.target, self.attribute, self.bug)
        try:
            yield
        finally:
            setattr(self.target, self.attribute, sound)


async def _sync_nothing(_file: object) -> None:
    await asyncio.sleep(0.0005)


def _mix(replicas: int, **weights: float) -> Mix:
    named = {name.replace("_", " "): weight for name, weight in weights.items()}
    return Mix(replicas=replicas, operators=1, faults_s=20.0, every_s=3.0, weights=named)


MUTANTS: Final = (
    Mutant(
        "the disk lies about syncs",
        disk.memory_disk().MemoryFile,
        "sync",
        _sync_nothing,
        _mix(1, power_cut_of_all=1.0),
        frozenset({"lost-write", "dirty-read", "inconsistent-offsets", "client-problem"}),
    ),
    Mutant(
        "acknowledged before fsync",
        LogState,
        "countable_end_offset",
        property(lambda log: log.end_offset),
        _mix(1, power_cut_of_all=1.0),
        frozenset({"lost-write", "dirty-read", "inconsistent-offsets", "client-problem"}),
    ),
    Mutant(
        "a retry is not recognised",
        ProducerStates,
        "check",
        lambda *_: None,
        _mix(1, connections_broken=2.0, slow_network=1.0),
        frozenset({"duplicate"}),
    ),
    Mutant(
        "acknowledged before replication",
        Followers,
        "safe_offset",
        lambda _followers, own_end_offset: own_end_offset,
        _mix(3, power_cut=1.0, broker_killed=1.0, slow_network=1.0),
        frozenset({"lost-write", "dirty-read", "inconsistent-offsets", "client-problem"}),
    ),
)
