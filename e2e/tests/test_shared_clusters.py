"""One failure is one failure: a cluster that a test leaves broken is repaired before the next
one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.main.shared import Remedy, Shared

LANE = """
import pytest
from e2e.main.shared import Remedy, Shared, pytest_runtest_protocol, shared

is_broken = set()

def wait_whole(limit_s):
    if is_broken:
        raise TimeoutError("bc/demo is not whole")

@pytest.fixture(scope="session")
def cluster():
    remedies = (
        Remedy("repaired", lambda: is_broken.discard("a little"), 1),
        Remedy("replaced", is_broken.clear, 1),
    )
    with shared(Shared("lane/demo", wait_whole, remedies, patience_s=1)):
        yield is_broken
"""
TESTS = """
import pytest

@pytest.mark.parametrize("how", ["a little", "a lot", "and its limit"])
def test_that_breaks_it(cluster, how):
    cluster.add(how)
    raise AssertionError("the one failure")

def test_that_uses_it(cluster):
    assert not cluster
"""


def test_one_failure_is_one_failure(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(LANE)
    (tmp_path / "test_lane.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "3 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("the one failure") >= 3


@pytest.mark.parametrize(
    ("helps", "tried", "how"),
    [
        ("nothing", [], ""),
        ("repaired", ["repaired"], "repaired"),
        ("replaced", ["repaired", "replaced"], "replaced"),
    ],
)
def test_the_smallest_remedy_that_helps_is_taken(helps: str, tried: list[str], how: str) -> None:
    applied: list[str] = []

    def wait_whole(_: float) -> None:
        if helps != "nothing" and helps not in applied:
            raise TimeoutError("it is not whole")

    assert Shared("demo", wait_whole, remedies(applied.append)).repair() == how
    assert applied == tried


def test_where_nothing_helps_it_says_why() -> None:
    def wait_whole(_: float) -> None:
        raise TimeoutError("it is not whole")

    def fails(name: str) -> None:
        raise AssertionError(f"{name}: kubectl failed")

    with pytest.raises(AssertionError, match="replaced: kubectl failed"):
        Shared("demo", wait_whole, remedies(fails)).repair()


def remedies(apply: Callable[[str], None]) -> tuple[Remedy, ...]:
    names = ("repaired", "replaced")
    return tuple(Remedy(name, lambda name=name: apply(name), 1) for name in names)  # type: ignore[misc]
