"""The short form: a few seconds of each attack on a broker by itself, and it goes on."""

from collections.abc import Iterator

import pytest

from e2e.hostile.attacks import OF_REQUESTS, every
from e2e.hostile.report import WAIT_LIMIT_S
from e2e.hostile.run import measured
from e2e.hostile.scene import MIB, POD_BYTES, Alone
from e2e.measured import note

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

SECONDS = 1.0
SHORT = [name for name in every() if name not in OF_REQUESTS]
"""What requests cost has tests of its own, beside the code that bounds it."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """One broker for all attacks: what one leaves behind, the next would meet."""
    with Alone(tmp_path_factory.mktemp("hostile")) as one:
        yield one


@pytest.mark.parametrize("name", SHORT)
def test_another_client_goes_on_beside(scene: Alone, name: str) -> None:
    found = measured(scene, name, SECONDS)
    note(f"{name}: {found.longest_s:.2f} s at most, {found.peak_bytes / MIB:.0f} MiB")
    assert scene.pid is not None, "the broker has ended"
    assert found.waits, "nothing that it sent came back"
    assert found.longest_s < 5 * WAIT_LIMIT_S, found.happened
    assert found.peak_bytes <= POD_BYTES
    assert "the attacker failed" not in found.happened, found.happened
