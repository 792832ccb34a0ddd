"""Measures memory and CPU of an idle operator, and compares them with their limits."""

import time
from typing import Final

from chiplog_core.group_watch.pace import MOVES_FOR_MS
from e2e import measured
from e2e.main.operator import Operator

MEMORY_LIMIT_MIB: Final = 200
IDLE_LIMIT_PERCENT: Final = 2
IDLE_S: Final = 20
REST_S: Final = MOVES_FOR_MS / 1000 + 2
# The measured CPU is only shown next to its limit. A test fails at this multiple of the limit.
HANG: Final = 5


def note_at_rest(operator: Operator) -> None:
    """Note memory and idle CPU of the active operator and of the standby in the test's summary.

    Raises `AssertionError` far above the limits.
    """
    # Wait until the work after the last change is over, and groups are polled less often again.
    time.sleep(REST_S)
    before = operator.usage()
    time.sleep(IDLE_S)
    after = operator.usage()
    leader = operator.leader()["metadata"]["name"]
    for name, used in after.items():
        idle = 100 * (used.cpu_s - before[name].cpu_s) / IDLE_S
        mib = used.rss_bytes / 2**20
        measured.note(
            f"operator, {'active' if name == leader else 'standby'}: "
            f"{mib:.0f} MiB (limit {MEMORY_LIMIT_MIB}), "
            f"idle {idle:.1f} % of a core (limit {IDLE_LIMIT_PERCENT})"
        )
        assert 0 < mib <= MEMORY_LIMIT_MIB
        assert idle <= HANG * IDLE_LIMIT_PERCENT
