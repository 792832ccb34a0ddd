"""A planted bug: the code that it replaces, the faults that provoke it, the expected anomalies."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from e2e.sim.faults import Mix

LOSS: Final = frozenset({"lost-write", "dirty-read", "inconsistent-offsets", "unseen"})
"""An acknowledged or read record is lost, or another one is at its offset."""
FORK: Final = frozenset({"epoch-fork", "replica-divergence"})
"""In-sync replicas have different records at the same offsets."""


@dataclass(frozen=True, slots=True)
class Plant:
    """One replacement: `bug` becomes the attribute named `attribute` of a class or module."""

    target: Any
    attribute: str
    bug: Any

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Within the block the attribute is replaced."""
        original = self.target.__dict__[self.attribute]
        setattr(self.target, self.attribute, self.bug)
        try:
            yield
        finally:
            setattr(self.target, self.attribute, original)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug, which breaks one rule."""

    name: str
    mix: Mix
    shows: frozenset[str]
    """Names of the expected anomalies, or of errors that clients get only because of the bug."""
    plants: tuple[Plant, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Within the block all simulated code has the bug."""
        with ExitStack() as stack:
            for one in self.plants:
                stack.enter_context(one.planted())
            yield


def plant(target: Any, attribute: str, bug: Any) -> tuple[Plant, ...]:
    """The `plants` of a bug that replaces a single attribute."""
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
    """A mix for a short run with these faults, all equally frequent."""
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
