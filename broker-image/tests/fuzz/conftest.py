"""The worst frame of each file, printed beside the limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.measured import note
from tests.fuzz.costs import Worst
from tests.server.tls_kit import Pki


@pytest.fixture(scope="module")
def worst(request: pytest.FixtureRequest) -> Iterator[Worst]:
    """Of all parts together."""
    found = Worst()
    yield found
    note(f"{request.module.WHAT}: {found}")


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")
