"""What is kept by content is made once, whole or not at all."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from e2e.cluster.cached import cached


def fill(directory: Path) -> None:
    (directory / "program").write_text("whole")


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(directory: Path) -> None:
        made.append(directory)
        fill(directory)

    for _ in range(2):
        assert (cached(tmp_path / "tools" / "a-1", make) / "program").read_text() == "whole"
    assert len(made) == 1


def test_after_a_failure_nothing_is_left_and_the_next_attempt_succeeds(tmp_path: Path) -> None:
    def make_half(directory: Path) -> None:
        fill(directory)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path / "a-1", make_half)
    assert [path.name for path in tmp_path.iterdir()] == ["a-1.lock"]
    assert (cached(tmp_path / "a-1", fill) / "program").exists()


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path, checkout: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from e2e.cluster.cached import cached\n"
        "def make(folder):\n"
        "    (folder / 'half').touch(); print('begun', flush=True); time.sleep(60)\n"
        "cached(Path(sys.argv[1]), make)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a-1")]
    with subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in cached(tmp_path / "a-1", fill).iterdir()] == ["program"]


def test_two_that_want_the_same_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []
    begun = threading.Event()
    waits = threading.Event()

    def make(directory: Path) -> None:
        made.append(directory)
        begun.set()
        assert waits.wait(20)
        fill(directory)

    def second() -> None:
        waits.set()
        cached(tmp_path / "a-1", make)

    first = threading.Thread(target=cached, args=(tmp_path / "a-1", make))
    first.start()
    assert begun.wait(20)
    other = threading.Thread(target=second)
    other.start()
    for thread in (first, other):
        thread.join(20)
    assert len(made) == 1
