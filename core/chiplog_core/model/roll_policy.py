"""When brokers may be restarted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.limits import MAX_BROKERS
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.naming import labels

_CRON_FIELD = r"[0-9A-Za-z*/,-]{1,60}"

CronSchedule = Annotated[
    str,
    Length(300, minimum=9),
    Pattern(rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}", "five cron fields, like 0 2 * * 6"),
]


UTC = "UTC"

TimeZone = Annotated[
    str,
    Length(64),
    Pattern(
        "[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}",
        "a name of the IANA time zone database, like Europe/Berlin",
    ),
]


class RollApproval(StrEnum):
    """Whether a change that needs restarts waits for an approval."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollWindow:
    """A time in which brokers may be restarted."""

    schedule: Annotated[
        CronSchedule,
        "When the window for restarts opens, as five cron fields in spec.rollPolicy.timeZone, like "
        "0 2 * * 6.",
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
        "Automatic: brokers restart as soon as a change needs it. Manual: a change that needs "
        f"restarts waits until the annotation {labels.APPROVED_REVISION} of the BrokerCluster has "
        "the value of status.revision. Restarts that a user requests need no approval.",
    ] = RollApproval.AUTOMATIC
    windows: Annotated[
        tuple[RollWindow, ...],
        "Brokers are restarted only in these windows; default: always. A restart that has begun is "
        "completed.",
        Items(20),
    ] = ()
    time_zone: Annotated[
        TimeZone,
        "The time zone of the windows' schedules, like Europe/Berlin. A time that a change of the "
        "clocks skips is as much later as the clocks go forward; one that occurs twice counts "
        "once, the first time.",
    ] = UTC
    max_parallel_per_rack: Annotated[
        int,
        "How many brokers of one rack may be down for a restart at the same time; above 1 it needs "
        "spec.rack. Brokers of two racks are never restarted at the same time, nor are two that "
        "hold replicas of the same partition.",
        Range(1, MAX_BROKERS),
    ] = 1
