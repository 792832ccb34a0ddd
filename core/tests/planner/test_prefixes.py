"""Whatever moves are pending, an operator may be killed after any action: the next one finishes.

`make plans` tries every prefix at every size, and large clusters.
"""

from copy import deepcopy
from random import Random

import pytest

from tests.planner.pending import small

MOST_PLANS = 15
"""Brokers copy five partitions at a time, and each move takes four writes: these worlds need
at most eight plans."""


@pytest.mark.parametrize("seed", range(100))
def test_every_prefix_of_a_plan_leads_to_what_is_wanted(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - a world is to be the same every time
    start = small(rng, brokers=rng.randint(1, 6), partitions=rng.randint(1, 30))
    actions = start.plan().actions
    for length in range(len(actions) + 1):
        killed = deepcopy(start)
        killed.execute(actions[:length])
        killed.settle(MOST_PLANS)
        killed.check_wanted()
