"""Runs seeds of the simulator against mutants that no unit test noticed."""

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from e2e.mutants.forks import SIDE_BY_SIDE, Job, run_all
from e2e.mutants.mutations import Mutant
from e2e.mutants.rooms import Room
from e2e.mutants.swap import NotSwappedError, functions_of, swap
from e2e.sim.faults import Mix
from e2e.sim.mutants.mutant import mix
from e2e.sim.seed import run_seed

SEEDS: Final = range(1, 5)
MIXES: Final[Mapping[str, Mix]] = {
    "disks": mix(3, 1.0, "power cut", "power cut of all", "slow disk", "sync fails"),
    "torn": mix(1, 2.0, "torn again and again", "power cut of all", "pod deleted"),
    "leaders": mix(3, 1.0, "power cut", "broker killed", "partition", "slow disk"),
    "groups": mix(3, 2.0, "broker killed", "pod deleted", "slow network"),
}
_CLEAN_S: Final = 60.0
"""More than a seed takes with the original code; the limit, a multiple, ends endless mutants."""


def try_all(room: Room, mutants: Sequence[Mutant], said: Callable[[Mutant, str], None]) -> None:
    """Call `said` with each mutant and the anomalies of the first seed that finds it, "" for none.

    Only seeds without anomalies in the original code are used.
    """
    logging.disable(logging.CRITICAL)
    module = importlib.import_module(room.module)
    functions, wanted = functions_of(module), MIXES[room.mix]

    def clean(seed: int) -> str:
        return _shown(seed, wanted)

    def mutated(one: Mutant) -> str:
        """Runs in a fork for this mutant."""
        try:
            swap(one, module, functions)
        except NotSwappedError as error:
            return str(error)
        return next((found for seed in sound if (found := _shown(seed, wanted))), "")

    outcomes = run_all([Job(seed, clean, _CLEAN_S) for seed in SEEDS], SIDE_BY_SIDE)
    sound = sorted(one.given for one in outcomes if one.text == "")
    trials = [Job(one, mutated, _CLEAN_S) for one in mutants]
    for outcome in run_all(trials, SIDE_BY_SIDE):
        said(
            outcome.given,
            f"seeds {sound}: not ended in time" if outcome.text is None else outcome.text,
        )


def _shown(seed: int, wanted: Mix) -> str:
    """Seed and names of its anomalies as text, empty if there are none.

    An unexpected exception, such as one in the mutant's code, counts as an anomaly.
    """
    try:
        found = {one.name for one in run_seed(seed, wanted).anomalies}
    except Exception as error:  # noqa: BLE001 - whatever the mutant does
        found = {type(error).__name__}
    return f"seed {seed}: {', '.join(sorted(found))}" if found else ""
