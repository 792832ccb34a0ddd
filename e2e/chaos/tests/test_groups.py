"""Members that come and go, as processes that do nothing."""

import sys
from pathlib import Path

import pytest

from e2e.chaos.group_members import Member
from e2e.chaos.groups import Groups
from e2e.chaos.ledger import Ledger


class Sleeper(Member):
    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize("is_crash", [True, False], ids=["killed", "left"])
def test_who_is_away_when_all_end_has_not_ended_by_himself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_crash: bool
) -> None:
    monkeypatch.setattr("e2e.chaos.groups.KINDS", {"librdkafka": Sleeper})
    ledger = Ledger("orders", 1)
    groups = Groups("nowhere", ledger, tmp_path)
    seat = groups.seats[0]
    groups.sit_down(seat)
    groups.ask_to_stop()
    groups.change(seat, is_crash)
    groups.end_all()
    assert ledger.errors == []
    assert seat.member is None
