"""Kafka's own ConsumerPerformance: one Java consumer that subscribes, joins its group, and reads.

Each call is a process of its own, as for a user who types kafka-consumer-perf-test.sh.
"""

from typing import Final

from e2e.cluster.shell import run
from e2e.kafka.java import java
from e2e.kafka.tools import TOOLS

HEAP: Final = ("-Xmx512M",)
"""Java options that Kafka's script kafka-consumer-perf-test.sh sets."""
LIMIT_S: Final = 120
PATIENCE_MS: Final = 60_000
"""How long the tool waits for a record. With the first group Kafka creates `__consumer_offsets`."""
READ, PER_S = 4, 5
"""Columns of the tool's output, from 0: number of records, and records a second.

The rate counts from the first poll, so it includes the time to join the group."""
COLUMNS: Final = 10


def read_in_group(bootstrap: str, topic: str, group: str, records: int) -> float:
    """Read a topic in a group; returns records a second.

    Raises `RuntimeError` where fewer than `records` came.
    """
    command = java(TOOLS["kafka-consumer-perf-test.sh"], HEAP)
    printed = run(
        *command,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--timeout", str(PATIENCE_MS), "--hide-header"),
        timeout_s=LIMIT_S,
    )
    return records_per_s(printed, records)


def records_per_s(printed: str, records: int) -> float:
    """Records a second from the tool's output: one line of numbers, after any warnings.

    Raises `RuntimeError` where there is no such line, or fewer than `records` were read.
    """
    for line in reversed(printed.splitlines()):
        found = line.split(", ")
        if len(found) == COLUMNS:
            if int(found[READ]) < records:
                break
            return float(found[PER_S])
    raise RuntimeError(f"fewer than {records} records were read:\n{printed[-2000:]}")
