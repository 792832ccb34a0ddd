"""Group commit: one commit at a time; callers that arrive in the meantime share the next one.

A mark is a number that grows with each change: a log's end offset, or the version of a table.
`commit` makes all changes durable that exist when it is called, and returns their mark.

After a failed commit all later calls fail: the state of the device is unknown, and a second attempt
could report success for bytes that the kernel has dropped. The exception is a commit that failed
because the disk was full. It has lost nothing, and the next caller tries again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from chiplog_broker.storage.errors import DiskFullError

_Waiter: TypeAlias = tuple[int, asyncio.Future[None]]
"""The mark that a caller waits for, and the future that is completed then."""


class GroupCommit:
    """Shares commits among concurrent callers."""

    __slots__ = ("_commit", "_failure", "_served", "_task", "_waiters", "reached")

    def __init__(self, commit: Callable[[], Awaitable[int]], reached: int = 0) -> None:
        """A mark is an offset or a version. `commit` makes everything durable that exists when it
        is called, and returns the mark up to which that is; `reached` is durable already."""
        self._commit = commit
        self.reached = reached
        """The mark up to which everything is durable."""
        self._waiters: list[_Waiter] = []
        """Callers for the next commit."""
        self._served: list[_Waiter] = []
        """Callers for the commit in progress."""
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        """The error after which nothing is committed any more: every caller gets it."""

    async def reach(self, mark: int) -> None:
        """Return once `mark` is durable; raises the error of a failed commit."""
        if mark > self.reached or self._failure is not None:
            await self._wait(mark)

    async def once_more(self) -> None:
        """Return after a commit that started after this call."""
        await self._wait(self.reached)

    async def idle(self) -> None:
        """Return when no commit is in progress."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _wait(self, mark: int) -> None:
        """Wait for the next commit, which is started if none is in progress."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append((mark, waiter))
        if self._task is None:
            # A task of its own, so that a caller who is cancelled does not cancel the commit for
            # others.
            self._task = loop.create_task(self._run())
        await waiter

    def withdraw(self, mark: int, error: Exception) -> None:
        """After a truncation to `mark`: callers that wait for a higher mark get `error`."""
        self.reached = min(self.reached, mark)
        for awaited, waiter in (*self._served, *self._waiters):
            if awaited > mark and not waiter.done():
                waiter.set_exception(error)

    async def _run(self) -> None:
        """Commit as long as callers wait.

        If the disk was full, only the callers for that commit get the error. After any other error
        all callers get it, also later ones.
        """
        try:
            while self._waiters:
                self._served, self._waiters = self._waiters, []
                try:
                    self.reached = await self._commit()
                except DiskFullError as error:
                    self._fail_served(error)
                for _, waiter in self._served:
                    if not waiter.done():
                        waiter.set_result(None)
                self._served = []
        except Exception as error:  # noqa: BLE001 (handed to everyone who waits)
            self._failure = error
            self._served += self._waiters
            self._waiters = []
            self._fail_served(error)
        finally:
            self._task = None

    def _fail_served(self, error: Exception) -> None:
        """Raise the error in all callers for the commit in progress."""
        for _, waiter in self._served:
            if not waiter.done():
                waiter.set_exception(error)
        self._served = []
