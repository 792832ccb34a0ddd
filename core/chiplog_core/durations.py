"""Durations as users write them in manifests: `7d`, `12h`, `90s`, `250ms`.

Kubernetes' own durations have no days, which are common for retention. A duration is one number and
one unit; `1h30m` must be written `90m`, so that there are few texts for the same duration.
"""

import re
from typing import NewType

Duration = NewType("Duration", str)

DURATION_PATTERN = "[0-9]{1,9}(ms|s|m|h|d)"
DURATION_MEANING = "a whole number and a unit, one of ms, s, m, h, d, like 7d"
MAX_DURATION_LENGTH = 11

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_UNIT_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}


def duration_ms(text: Duration) -> int:
    """The duration in milliseconds. Raises `ValueError`, which says how a duration is written."""
    match = re.fullmatch(f"([0-9]+)({'|'.join(_UNIT_MS)})", text)
    if match is None or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not {DURATION_MEANING}")
    return int(match[1]) * _UNIT_MS[match[2]]
