"""Rules for the policy of restarts."""

from collections.abc import Iterator

from chiplog_core.model.roll_policy import RollPolicy
from chiplog_core.problems import Problem
from chiplog_core.validate.windows import check_windows


def check_roll_policy(policy: RollPolicy, *, has_racks: bool) -> Iterator[Problem]:
    """Problems with the policy. `has_racks` is whether the cluster sets spec.rack."""
    if policy.max_parallel_per_rack > 1 and not has_racks:
        yield Problem(
            "spec.rollPolicy.maxParallelPerRack",
            f"is {policy.max_parallel_per_rack}, but the brokers' racks are not known",
            "set spec.rack, or set it to 1",
        )
    yield from check_windows("spec.rollPolicy", policy.windows, policy.time_zone)
