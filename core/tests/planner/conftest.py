"""What several tests of the planner need."""

import pytest

from chiplog_core.validate import unbuilt


@pytest.fixture
def everything_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no feature were missing, to see the rules beyond."""
    monkeypatch.setattr(unbuilt, "UNBUILT", {})
