"""Where tests of disks run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.disks.file_systems import KINDS, FileSystem, refusal

HERE = "here"


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.clients) for kind in KINDS])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A kind of file system that can be made here."""
    found = str(request.param)
    if why := refusal(found, tmp_path):
        pytest.skip(why)
    return found


@pytest.fixture(params=[HERE, *(pytest.param(kind, marks=pytest.mark.clients) for kind in KINDS)])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory on whatever is here, and on each kind of file system."""
    if request.param == HERE:
        yield tmp_path
        return
    if why := refusal(request.param, tmp_path):
        pytest.skip(why)
    with FileSystem(request.param, tmp_path / "system") as one:
        yield one.path
