"""A loop for each key: for each cluster, for each process that is watched."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar


class Loop(Protocol):
    """What runs for one key."""

    async def run(self) -> None:
        """Until cancelled, or until there is nothing left to do for the key."""


K = TypeVar("K")
L = TypeVar("L", bound=Loop)


class KeyedLoops(Generic[K, L]):
    """Begins loops, finds them by their key, and stops them.

    It can be handed on before it can begin anything: how to make a loop is only said to `running`.
    """

    def __init__(self, name: str) -> None:
        """`name` stands before the key in the name of each task."""
        self._name = name
        self._known: dict[K, tuple[L, asyncio.Task[None]]] = {}
        self._begin: Callable[[K], L] | None = None

    @asynccontextmanager
    async def running(self, make: Callable[[K], L]) -> AsyncIterator[None]:
        """While this lasts loops can begin. A loop that fails ends all of them."""
        async with asyncio.TaskGroup() as group:

            def begin(key: K) -> L:
                loop = make(key)
                task = group.create_task(loop.run(), name=f"{self._name} {key}")
                self._known[key] = loop, task
                return loop

            self._begin = begin
            try:
                yield
            finally:
                self._begin = None

    def of(self, key: K) -> L | None:
        """The loop of a key, begun if none runs; None while none can begin."""
        if self._begin is None:
            return None
        known = self._known.get(key)
        return known[0] if known and not known[1].done() else self._begin(key)

    def all(self) -> list[L]:
        """Those that run. The others are forgotten."""
        self._known = {key: known for key, known in self._known.items() if not known[1].done()}
        return [loop for loop, _ in self._known.values()]

    def keep(self, keys: Collection[K]) -> None:
        """A loop for each of these keys that never had one, and none for any other key."""
        there = set(keys)
        for gone in [key for key in self._known if key not in there]:
            self._known.pop(gone)[1].cancel()
        if self._begin is not None:
            for key in keys:
                if key not in self._known:
                    self._begin(key)
