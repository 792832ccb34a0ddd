"""Moments and lengths of time as users type them, in milliseconds.

Kafka's tools take `2026-01-31T12:00:00.000` and ISO 8601 durations; manifests of Chiplog take
`7d`. Both are understood everywhere.
"""

import re
from datetime import UTC, datetime, timedelta

from chiplog_core.durations import (
    DAY_MS,
    DURATION_MEANING,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Duration,
    duration_ms,
)

_ISO = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9})(?:\.(?P<fraction>\d{1,3})\d*)?S)?)?",
    re.ASCII,
)
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS_MS = {"days": DAY_MS, "hours": HOUR_MS, "minutes": MINUTE_MS, "seconds": SECOND_MS}


def length_ms(text: str) -> int:
    """The milliseconds of a duration like `7d`, `P7D`, `PT1H30M` or `PT0.5S`. Raises
    `ValueError`."""
    if not text.startswith("P"):
        try:
            return duration_ms(Duration(text))
        except ValueError as error:
            raise ValueError(f"{text!r} is not {DURATION_MEANING}, or PT1H30M") from error
    match = _ISO.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is not an ISO 8601 duration: write it like P7D, PT1H30M or 90m")
    whole_ms = sum(int(match[name] or 0) * unit_ms for name, unit_ms in _UNITS_MS.items())
    return whole_ms + int((match["fraction"] or "0").ljust(3, "0"))


def moment_ms(text: str) -> int:
    """The milliseconds since 1970 of a time. Without a time zone it is UTC, as in Kafka's tools.
    Raises `ValueError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time: write it like 2026-01-31T12:00:00Z, or with a time zone "
            "like +01:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def moment_text(timestamp_ms: int) -> str:
    """The time in UTC, with milliseconds."""
    moment = _EPOCH + timestamp_ms * _MILLISECOND
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
