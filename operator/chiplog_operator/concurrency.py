"""Several jobs at once, not too many, and one error where one of them fails."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_concurrently(
    job: Callable[[T], Awaitable[R]], things: Iterable[T], *, max_concurrent: int
) -> list[R]:
    """`job` of each thing, begun in their order. The first error ends all and is raised bare."""
    jobs = list(things)
    waiting = enumerate(jobs)
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
