"""Running the parts of one request concurrently: each may wait for the operator."""

import asyncio
from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

MAX_CONCURRENT = 32
"""Parts of one request that run at the same time: other clients' requests need resources too."""


async def bounded_gather(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """`asyncio.gather` with at most `MAX_CONCURRENT` at a time; results in the order of `parts`."""
    iterator = iter(parts)
    results: list[T] = []
    while group := list(islice(iterator, MAX_CONCURRENT)):
        results += await asyncio.gather(*group)
    return results
