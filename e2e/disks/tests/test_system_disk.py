"""The machine's disk does what the simulated one does, so that what holds there holds here."""

import asyncio
from pathlib import Path

import pytest

from e2e import measured
from e2e.disks.side_by_side import Seen, SideBySide
from e2e.lanes import is_full

SEEDS = 200 if is_full() else 10
CALLS = 400


def test_the_same_calls_come_to_the_same(directory: Path, request: pytest.FixtureRequest) -> None:
    seen = Seen()
    for seed in range(SEEDS):
        asyncio.run(run(directory / str(seed), seed, seen))
    where = request.node.callspec.id
    calls, errors = sum(seen.calls.values()), sum(seen.errors.values())
    measured.note(f"{where}: {calls} calls of both disks, {errors} refused alike: {seen.errors}")
    assert len(seen.errors) >= 5, "hardly anything was tried that fails"


async def run(directory: Path, seed: int, seen: Seen) -> None:
    both = SideBySide(directory, seed, seen)
    try:
        await both.run(CALLS)
    finally:
        both.close()
