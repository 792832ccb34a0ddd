"""How soon the groups of a cluster are checked again.

A lag is reported within a second. At rest the first pass after a burst of records finds it, and
what comes first is written at once. Where something moved in the last pass, two more have to find
the same before it counts as settled, so they follow each other faster. What a look takes bounds
both: a thousand groups may take a fifth of the time there is, not all of it. At rest a look at
fifty groups waits for up to a second, so that a cluster that does nothing hardly takes a
processor.
"""

from typing import Final

MOVING_MS: Final = 200
AT_REST_MS: Final = 500
MOVES_FOR_MS: Final = 10_000
"""For this long after the last change the next one is expected."""
SHARE: Final = 5
"""At least this many times as long as the last pass took."""
SHARE_AT_REST: Final = 40
"""The same at rest, as long as that is within `AT_REST_PATIENCE_MS`."""
AT_REST_PATIENCE_MS: Final = 1_000
NOTHING_TO_ASK_MS: Final = 60_000
MAX_MS: Final = 30_000


def requeue_after_ms(*, asked: bool, still_ms: int, took_ms: int) -> int:
    """The time from the start of the last pass to the next.

    `asked`: whether the last pass sent any request. `still_ms`: the time since a figure last
    changed. `took_ms`: the duration of the last pass.
    """
    if not asked:
        return NOTHING_TO_ASK_MS
    pace_ms = MOVING_MS if still_ms < MOVES_FOR_MS else _at_rest_ms(took_ms)
    return min(max(pace_ms, SHARE * took_ms), MAX_MS)


def _at_rest_ms(took_ms: int) -> int:
    """The time between passes while no figure changes: longer if a pass takes long."""
    return min(max(AT_REST_MS, SHARE_AT_REST * took_ms), AT_REST_PATIENCE_MS)
