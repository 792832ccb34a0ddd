"""When brokers may be restarted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.limits import MAX_BROKERS
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range

_CRON_FIELD = r"[0-9A-Za-z*/,-]{1,60}"

CronSchedule = Annotated[
    str,
    Length(300, minimum=9),
    Pattern(rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}", "five cron fields, like 0 2 * * 6"),
]


class RollApproval(StrEnum):
    """Whether a restart waits for a request."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollWindow:
    """A time in which brokers may be restarted."""

    schedule: Annotated[
        CronSchedule,
        "When the window for restarts opens, as five cron fields in UTC, like 0 2 * * 6.",
    ]
    duration: Annotated[Duration, "How long the window for restarts stays open, like 3h."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPolicy:
    """When and how brokers are restarted.

    A restart never endangers data: a broker is restarted only if every partition keeps
    min.insync.replicas without it.
    """

    approval: Annotated[
        RollApproval,
        "Automatic: brokers restart as soon as a change needs it. Manual: brokers restart when "
        "the annotation chiplog.dev/manual-rolling-update is set.",
    ] = RollApproval.AUTOMATIC
    windows: Annotated[
        tuple[RollWindow, ...],
        "Brokers are restarted only in these windows; default: always.",
        Items(20),
    ] = ()
    max_parallel_per_rack: Annotated[
        int,
        "How many brokers of one rack may be down for a restart at the same time.",
        Range(1, MAX_BROKERS),
    ] = 1
