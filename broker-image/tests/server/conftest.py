"""Fixtures of tests with TLS."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.tls_kit import (
    Pki,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest, kit: "Kit") -> Callable[[Callable[[], Any]], None]:
    """Runs a scenario on the production loop, or on plain asyncio."""
    if request.param == "uvloop":
        return kit.run

    def on_asyncio(scenario: Callable[[], Any]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await scenario()

        asyncio.run(limited())

    return on_asyncio
