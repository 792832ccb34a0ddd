"""How soon the groups of a cluster are checked again.

A lag must be reported within a second. While no figure changes, passes are further apart; the first
pass that finds a change writes it immediately. While figures change, passes follow each other
faster, because figures are written as settled only when two passes found the same. The duration of
a pass limits both: passes take at most a fifth of the time, however many groups there are, and far
less while nothing changes, so that an idle cluster needs hardly any CPU.
"""

from typing import Final

MOVING_MS: Final = 200
"""Shortest time between passes while figures change."""
AT_REST_MS: Final = 500
"""Shortest time between passes while no figure changes."""
MOVES_FOR_MS: Final = 10_000
"""How long after the last change figures count as changing."""
SHARE: Final = 5
"""The time between passes is at least this many times the duration of the last pass."""
SHARE_AT_REST: Final = 40
"""While no figure changes, the time between passes is at least this many times the duration of the
last pass, up to `AT_REST_PATIENCE_MS`."""
AT_REST_PATIENCE_MS: Final = 1_000
"""A pass may at least be this often while no figure changes, however long it takes, unless `SHARE`
requires more time."""
NOTHING_TO_ASK_MS: Final = 60_000
"""Time between passes of a cluster without groups to ask about."""
MAX_MS: Final = 30_000
"""Longest time between passes of other clusters."""


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
    """The time between passes while no figure changes: `AT_REST_MS`, or more if a pass takes long,
    but at most `AT_REST_PATIENCE_MS`."""
    return min(max(AT_REST_MS, SHARE_AT_REST * took_ms), AT_REST_PATIENCE_MS)
