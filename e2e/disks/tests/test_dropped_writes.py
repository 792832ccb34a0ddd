"""A log on a device that drops writes: what is acknowledged after a restart outlives the cache.

`FULL=1` tries more of them.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from e2e import measured
from e2e.disks.file_systems import DroppingFileSystem
from e2e.disks.log_process import Asked, Said, parsed
from e2e.kafka.process import DIE_WITH_US
from e2e.lanes import is_full

SEEDS = 25 if is_full() else 3
# Each may find one file more whose error was not reported yet: the log, indexes, a checkpoint.
STARTS = 40
PAD_BYTES = (0, 200, 5_000)

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240 + 30 * SEEDS)]


class Process:
    """A process that has the data directory."""

    def __init__(self, child: "subprocess.Popen[str]", said: Said) -> None:
        self._child = child
        self.found = said

    def ask(self, asked: Asked) -> Said:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(asdict(asked)) + "\n")
        self._child.stdin.flush()
        return parsed(self._child.stdout.readline())


@contextmanager
def running_at_last(directory: Path) -> Iterator[Process]:
    """Once there is space again. An error that nobody has seen is kept for the next sync."""
    for _ in range(STARTS):
        with running(directory) as process:
            if not process.found.error:
                yield process
                return
    raise AssertionError(f"{STARTS} processes find the directory offline: {process.found.error}")


@contextmanager
def running(directory: Path) -> Iterator[Process]:
    """It is killed at the end of the block: the next one finds no clean shutdown."""
    command = [*DIE_WITH_US, sys.executable, "-m", "e2e.disks.log_process", str(directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            yield Process(child, parsed(child.stdout.readline()))
        finally:
            child.kill()


class Story:
    """What may not be lost, and the next values."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - the same story for the same seed
        self.promised: dict[int, str] = {}
        self._count = 0

    def some(self, least: int, most: int) -> Asked:
        count = self.chance.randint(least, most)
        values = [str(self._count + number) for number in range(count)]
        self._count += count
        return Asked(
            values=values,
            value_bytes=self.chance.choice(PAD_BYTES),
            checkpoint=self.chance.random() < 0.3,
        )

    def lost(self, found: Said) -> list[int]:
        """Offsets of what was promised and is not there; what is there is promised from now on."""
        assert not found.error
        lost = [at for at, value in self.promised.items() if found.values.get(at) != value]
        self.promised.update(found.values)
        return lost


@pytest.mark.parametrize("early", [False, True], ids=["room-first", "restarted-while-full"])
def test_what_is_acknowledged_after_a_restart_is_on_the_device(
    kind: str, tmp_path: Path, early: bool
) -> None:
    losses = [
        losses_of(Story(seed), kind, tmp_path / str(seed), early=early) for seed in range(SEEDS)
    ]
    measured.note(
        f"{kind}, {'started again while full' if early else 'room before the restart'}: "
        f"{sum(map(len, losses))} records lost in {sum(map(bool, losses))} of {SEEDS} devices"
    )
    assert not any(losses)


def losses_of(story: Story, kind: str, directory: Path, *, early: bool) -> list[int]:
    """What is lost of a log whose device drops writes, once the cache is gone."""
    with DroppingFileSystem(kind, directory) as device:
        data = device.path / "data"
        with running(data) as process:
            story.promised.update(process.ask(story.some(1, 30)).values)
            device.fill()
            failed = process.ask(story.some(200, 200))
            story.promised.update(failed.values)
            assert "No space left on device" in failed.error
            again = process.ask(story.some(1, 3))
            assert again.error, "one failure is the last"
            assert not again.values
        if early:
            with running(data) as process:
                # It may not have been able to open anything: then it vouches for nothing.
                story.promised.update(process.found.values)
        device.make_room()
        with running_at_last(data) as process:
            lost = story.lost(process.found)
            story.promised.update(process.ask(story.some(1, 30)).values)
        device.forget_cache()
        with running(data) as process:
            if process.found.quarantined:
                return [*lost, *story.promised]
            return lost + story.lost(process.found)
