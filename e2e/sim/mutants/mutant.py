"""What a planted bug is: what is put in whose place, the faults that provoke it, what it shows."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from e2e.sim.faults import Mix

LOSS: Final = frozenset({"lost-write", "dirty-read", "inconsistent-offsets", "unseen"})
"""Something acknowledged or shown is gone, or something else is in its place."""
FORK: Final = frozenset({"epoch-fork", "replica-divergence"})
"""Replicas that vouch for the same offsets hold different records."""


@dataclass(frozen=True, slots=True)
class Plant:
    """One thing put in the place of another: `bug` becomes `attribute` of `target`."""

    target: Any
    attribute: str
    bug: Any

    @contextmanager
    def planted(self) -> Iterator[None]:
        sound = self.target.__dict__[self.attribute]
        setattr(self.target, self.attribute, self.bug)
        try:
            yield
        finally:
            setattr(self.target, self.attribute, sound)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that breaks one rule."""

    name: str
    mix: Mix
    shows: frozenset[str]
    """Names of anomalies; or of errors that clients get only because of it."""
    plants: tuple[Plant, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Within the block all code that runs has the bug."""
        with ExitStack() as stack:
            for one in self.plants:
                stack.enter_context(one.planted())
            yield


def plant(target: Any, attribute: str, bug: Any) -> tuple[Plant, ...]:
    """The usual mutant has one."""
    return (Plant(target, attribute, bug),)


def mix(
    replicas: int,
    every_s: float,
    *faults: str,
    faults_s: float = 20.0,
    operators: int = 1,
    config: Mapping[str, str] | None = None,
    reads_in_racks: bool = False,
) -> Mix:
    """A short run with a few kinds of faults, all as often."""
    return Mix(
        brokers=replicas,
        replicas=replicas,
        operators=operators,
        faults_s=faults_s,
        every_s=every_s,
        weights=dict.fromkeys(faults, 1.0),
        topic_config=dict(config or {}),
        reads_in_racks=reads_in_racks,
    )
