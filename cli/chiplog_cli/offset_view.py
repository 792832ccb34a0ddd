"""Offsets as `kafka-get-offsets.sh` prints them."""

from collections.abc import Mapping
from typing import Any

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import EARLIEST, LATEST, MAX_TIMESTAMP, UNKNOWN_OFFSET, Offsets
from chiplog_cli.moments import moment_ms

NAMED: Mapping[str, int] = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
}
LONG = 15
"""A number with more digits is no timestamp in milliseconds: these reach beyond the year 30000."""


def timestamp(text: str) -> int:
    """The timestamp for a ListOffsets request, from a name like `latest`, milliseconds or a time. A
    `ValueError` says how to write it."""
    if text in NAMED:
        return NAMED[text]
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= LONG:
        number = int(text)
        if number < MAX_TIMESTAMP:
            raise ValueError(
                f"{number} is not a time: write {', '.join(NAMED)} or milliseconds since 1970"
            )
        return number
    try:
        return moment_ms(text)
    except ValueError as error:
        raise ValueError(f"{error}; or one of {', '.join(NAMED)}") from error


def text(found: Offsets) -> str:
    """A line for each partition that has the requested offset. Partitions with an error, and those
    without a record of that time, are left out."""
    return "\n".join(
        f"{at.topic}:{at.partition}:{found[at]}"
        for at in sorted(found)
        if isinstance(found[at], int) and found[at] != UNKNOWN_OFFSET
    )


def documents(found: Offsets) -> list[dict[str, Any]]:
    """The offsets as documents. An offset of null says that no record has this time or a later
    one."""
    return [
        {
            "topic": at.topic,
            "partition": at.partition,
            "offset": None if found[at] == UNKNOWN_OFFSET else found[at],
        }
        for at in sorted(found)
        if isinstance(found[at], int)
    ]


def skipped(found: Offsets) -> list[str]:
    """A line for each partition whose leader did not answer."""
    return [
        f"Skip getting offsets for topic-partition {at} due to error: {answer}"
        for at, answer in sorted(found.items())
        if isinstance(answer, BrokerRefused)
    ]
