"""Every kind of fault under load, with the figures of each: `make chaos` for the long form."""

import os
from pathlib import Path

import pytest

from e2e import measured
from e2e.chaos.faults import FAULTS, Fault
from e2e.chaos.report import line
from e2e.chaos.run import Result, run
from e2e.chaos.scene import Scene
from e2e.lanes import is_full

SECONDS = float(os.environ.get("CHAOS_SECONDS", "300" if is_full() else "25"))
ASKED_FOR = [one.strip() for one in os.environ.get("CHAOS", "").split(",") if one.strip()]
ENOUGH_RECORDS_PER_S = 500
HANG_S = 900

pytestmark = [
    pytest.mark.main,
    pytest.mark.timeout(SECONDS + HANG_S),
    pytest.mark.usefixtures("faults"),
]


def chosen() -> list[tuple[Fault, ...]]:
    """Those asked for, or all in the long form, each by itself; or the four of the short one.

    These share their clients: starting and judging clients takes longer than the faults do.
    """
    if ASKED_FOR:
        known = {one.name: one for one in FAULTS}
        return [(known[name],) for name in ASKED_FOR]
    if is_full():
        return [(one,) for one in FAULTS]
    return [tuple(one for one in FAULTS if one.is_short)]


def name_of(struck: tuple[Fault, ...]) -> str:
    """The test's, and the topic's."""
    return struck[0].name.lower().replace(" ", "-") if len(struck) == 1 else "several-faults"


@pytest.mark.parametrize("struck", chosen(), ids=name_of)
def test_clients_lose_nothing(
    struck: tuple[Fault, ...], scene: Scene, results: list[Result], tmp_path: Path
) -> None:
    found = run(scene, struck, SECONDS, tmp_path)
    results.append(found)
    measured.note(line(found))
    found.check()
    if is_full():
        # Less would be another test than the one that is asked for.
        assert found.records_per_s >= ENOUGH_RECORDS_PER_S
