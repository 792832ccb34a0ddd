"""Kafka's own ConsumerPerformance: one Java consumer that subscribes, joins its group, and reads.

Each call is a process of its own, as for a user who types kafka-consumer-perf-test.sh.
"""

from typing import Final

from e2e.cluster.shell import run
from e2e.kafka.java import java
from e2e.kafka.tools import TOOLS

HEAP: Final = ("-Xmx512M",)
"""What the script gives it."""
LIMIT_S: Final = 120
PATIENCE_MS: Final = 60_000
"""Without a record; Kafka makes `__consumer_offsets` when the first group asks for it."""
READ, PER_S = 4, 5
"""Columns: records, and records a second from the first poll to the last, so joining counts."""
COLUMNS: Final = 10


def read_in_group(bootstrap: str, topic: str, group: str, records: int) -> float:
    """Records a second. Raises `RuntimeError` where not all of them came."""
    command = java(TOOLS["kafka-consumer-perf-test.sh"], HEAP)
    printed = run(
        *command,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--timeout", str(PATIENCE_MS), "--hide-header"),
        timeout_s=LIMIT_S,
    )
    return records_per_s(printed, records)


def records_per_s(printed: str, records: int) -> float:
    """What the tool's one line of numbers says, after whatever it warned of."""
    for line in reversed(printed.splitlines()):
        found = line.split(", ")
        if len(found) == COLUMNS:
            if int(found[READ]) < records:
                break
            return float(found[PER_S])
    raise RuntimeError(f"not {records} records were read:\n{printed[-2000:]}")
