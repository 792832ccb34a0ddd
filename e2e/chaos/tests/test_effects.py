"""The checks that a fault had an effect: true of real processes and files that were hurt, and of no
others."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.errors import CorruptBatchError
from chiplog_wire.records.writer import NewRecord, build_batch
from e2e.chaos.disk_faults import flipped, segment
from e2e.chaos.process_faults import is_stopped, stopped
from e2e.chaos.scene import HadNoEffect, check_effect
from e2e.cluster.processes import Process, process

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        found = process(child.pid)
        assert found is not None
        yield found
        child.kill()


def test_a_fault_without_effect_is_an_error() -> None:
    check_effect("one", 1)
    with pytest.raises(HadNoEffect, match="expected a packet dropped"):
        check_effect("a packet dropped", 0)


def test_a_process_stands_still_within_the_block_and_runs_after_it(sleeper: Process) -> None:
    with stopped([sleeper]):
        assert is_stopped(sleeper)
    assert not is_stopped(sleeper)


def test_a_process_that_somebody_woke_did_not_stand_still(sleeper: Process) -> None:
    with pytest.raises(HadNoEffect, match="to the end"), stopped([sleeper]):
        os.kill(sleeper.pid, signal.SIGCONT)


def test_there_must_be_a_process_to_stop() -> None:
    with pytest.raises(HadNoEffect, match="a process to suspend"), stopped([]):
        pass


def test_a_flipped_bit_is_waited_for_until_it_is_repaired(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    path = directory / "00000000000000000000.log"
    whole = b"".join(bytes(build_batch([NewRecord(value=b"%d" % n)])) for n in range(9))
    path.write_bytes(whole)
    (directory / "00000000000000000050.log").write_bytes(b"newer")
    assert segment(tmp_path, "orders", 0) == path
    with flipped(path):
        assert sum(a != b for a, b in zip(path.read_bytes(), whole, strict=True)) == 1
        with pytest.raises(CorruptBatchError):
            check_all(path.read_bytes())
        path.write_bytes(whole)


def check_all(content: bytes) -> None:
    for position, header in iter_batches(content):
        check_crc(memoryview(content)[position:], header)


def test_there_must_be_something_to_damage(tmp_path: Path) -> None:
    with pytest.raises(HadNoEffect, match="a segment file of orders-0 to damage"):
        segment(tmp_path, "orders", 0)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(HadNoEffect, match="a complete batch to damage"), flipped(empty):
        pass
