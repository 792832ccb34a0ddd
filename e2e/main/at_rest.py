"""What the operator takes while nothing happens, beside its limits."""

import time
from typing import Final

from chiplog_core.group_watch.pace import MOVES_FOR_MS
from e2e import measured
from e2e.main.operator import Operator

MEMORY_LIMIT_MIB: Final = 200
IDLE_LIMIT_PERCENT: Final = 2
IDLE_S: Final = 20
REST_S: Final = MOVES_FOR_MS / 1000 + 2
# Times are shown beside their limit; a test fails only where something hangs.
HANG: Final = 5


def note_at_rest(operator: Operator) -> None:
    """Memory now and CPU while nothing happens, of the replica that leads and of the other."""
    # What the last changes caused is over, also the more frequent polls of groups.
    time.sleep(REST_S)
    before = operator.usage()
    time.sleep(IDLE_S)
    after = operator.usage()
    leader = operator.leader()["metadata"]["name"]
    for name, used in after.items():
        idle = 100 * (used.cpu_s - before[name].cpu_s) / IDLE_S
        mib = used.rss_bytes / 2**20
        measured.note(
            f"operator {'that leads' if name == leader else 'that waits'}: "
            f"{mib:.0f} MiB (limit {MEMORY_LIMIT_MIB}), "
            f"idle {idle:.1f} % of a core (limit {IDLE_LIMIT_PERCENT})"
        )
        assert 0 < mib <= MEMORY_LIMIT_MIB
        assert idle <= HANG * IDLE_LIMIT_PERCENT
