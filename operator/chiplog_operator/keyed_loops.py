"""A loop for each key: for each cluster, for each process that is watched."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar


class Loop(Protocol):
    """A loop that runs for one key, like a cluster."""

    async def run(self) -> None:
        """Run until cancelled, or until there is nothing left to do for the key."""


K = TypeVar("K")
L = TypeVar("L", bound=Loop)


class KeyedLoops(Generic[K, L]):
    """Starts loops, finds them by their key, and stops them.

    Other objects may hold it before it can start loops, which it can only within `running`.
    """

    def __init__(self, name: str) -> None:
        """Each task is called `name` and its key."""
        self._name = name
        self._known: dict[K, tuple[L, asyncio.Task[None]]] = {}
        self._begin: Callable[[K], L] | None = None

    @asynccontextmanager
    async def running(self, make: Callable[[K], L]) -> AsyncIterator[None]:
        """Within this context, loops can be started; `make` creates the loop for a key. If one
        fails, all end."""
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
        """The loop of a key, which is started if it does not run; None outside of `running`."""
        if self._begin is None:
            return None
        known = self._known.get(key)
        return known[0] if known and not known[1].done() else self._begin(key)

    def all(self) -> list[L]:
        """The running loops. Ended ones are forgotten."""
        self._known = {key: known for key, known in self._known.items() if not known[1].done()}
        return [loop for loop, _ in self._known.values()]

    def keep(self, keys: Collection[K]) -> None:
        """Start a loop for each new key, and stop the loops of all keys that are not listed.

        A loop that has ended is not started again while its key is listed.
        """
        wanted = set(keys)
        for unwanted in [key for key in self._known if key not in wanted]:
            _, task = self._known.pop(unwanted)
            task.cancel()
        if self._begin is not None:
            for key in keys:
                if key not in self._known:
                    self._begin(key)
