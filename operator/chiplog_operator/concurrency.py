"""Runs several jobs at the same time, up to a limit."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_concurrently(
    job: Callable[[T], Awaitable[R]], things: Iterable[T], *, max_concurrent: int
) -> list[R]:
    """Run `job` on each of the things, and return the results in the same order.

    Jobs are started in that order. The first error cancels the others and is raised itself, not in
    an exception group.
    """
    jobs = list(things)
    waiting = enumerate(jobs)  # shared by the workers, so that each thing is taken once
    results: dict[int, R] = {}

    async def work() -> None:
        for index, thing in waiting:
            results[index] = await job(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(max_concurrent, len(jobs))):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [results[index] for index in sorted(results)]
