"""Rules for the policy of restarts."""

from collections.abc import Iterator

from chiplog_core.cron import read_cron
from chiplog_core.durations import DAY_MS, duration_ms
from chiplog_core.model.roll_policy import RollPolicy
from chiplog_core.problems import Problem
from chiplog_core.windows import read_zone

MAX_WINDOW_DAYS = 366


def check_roll_policy(policy: RollPolicy, *, has_racks: bool) -> Iterator[Problem]:
    """Problems with the policy. `has_racks` is whether the cluster sets spec.rack."""
    if policy.max_parallel_per_rack > 1 and not has_racks:
        yield Problem(
            "spec.rollPolicy.maxParallelPerRack",
            f"is {policy.max_parallel_per_rack}, but the brokers' racks are not known",
            "set spec.rack, or set it to 1",
        )
    try:
        read_zone(policy.time_zone)
    except ValueError as error:
        remedy = "write a name of the IANA time zone database, like Europe/Berlin"
        yield Problem("spec.rollPolicy.timeZone", str(error), remedy)
    for index, window in enumerate(policy.windows):
        field = f"spec.rollPolicy.windows[{index}]"
        try:
            read_cron(window.schedule)
        except ValueError as error:
            remedy = "write minute, hour, day, month and day of the week, like 0 2 * * 6"
            yield Problem(f"{field}.schedule", str(error), remedy)
        if not 0 < duration_ms(window.duration) <= MAX_WINDOW_DAYS * DAY_MS:
            message = f"is {window.duration}, which is not between 1ms and {MAX_WINDOW_DAYS}d"
            yield Problem(f"{field}.duration", message, "set it to a time like 3h")
