"""What several tests of the planner need."""

import pytest

from chiplog_core import unbuilt


@pytest.fixture
def everything_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no feature were missing: the planner itself knows any replication factor."""
    monkeypatch.setattr(unbuilt, "UNBUILT", {})
