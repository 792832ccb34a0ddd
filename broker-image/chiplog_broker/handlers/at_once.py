"""The parts of one request, carried out together: each may wait for the operator."""

import asyncio
from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

AT_ONCE = 32
"""So that one request does not take all the room other clients' requests need."""


async def all_of(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What each of them comes to, in their order."""
    iterator = iter(parts)
    results: list[T] = []
    while group := list(islice(iterator, AT_ONCE)):
        results += await asyncio.gather(*group)
    return results
