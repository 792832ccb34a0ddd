"""How throughput grows with splits: `python -m e2e.spark.throughput [MEGABYTES]`, a table.

One partition of one broker on this machine is verified, and read by the data source, in 1, 2 and
4 splits by as many tasks at once; each in a Spark of its own, after one that warms the broker's
files up. Beside what was read stands how busy the broker was: what it gives is one limit, the
cores that the tasks share are the other.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from e2e.bench.rig import spent
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic, end_offsets

TOPIC: Final = "measured"
MEGABYTES: Final = 200
VALUE_BYTES: Final = 100
AT_ONCE: Final = 100_000
SPLITS: Final = (1, 2, 4)
LIMIT_S: Final = 900


def main() -> None:
    """Fill a topic, verify and read it in 1, 2 and 4 splits, and print the table."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    console = Console()
    table = Table(box=SIMPLE_HEAD, title=f"{megabytes} MB in records of {VALUE_BYTES} bytes")
    for heading in ("splits", "verified MB/s", "a core", "source MB/s", "broker's core"):
        table.add_column(heading, justify="right")
    with TemporaryDirectory() as directory, StandaloneBroker(Path(directory) / "broker") as broker:
        with console.status("producing"):
            fill(broker.bootstrap, megabytes)
        for splits in SPLITS:
            with console.status(f"reading in {splits} splits"):
                table.add_row(*row(broker, splits))
    console.print(table)
    console.print(f"{os.cpu_count()} cores, shared by the broker, the tasks and Spark's driver")


def fill(bootstrap: str, megabytes: int) -> None:
    """Create the topic and produce about so many megabytes, at least `AT_ONCE` records."""
    create_topic(bootstrap, TOPIC, 1)
    value = os.urandom(VALUE_BYTES)
    records = [Record(value, b"customer-%05d" % number) for number in range(AT_ONCE)]
    for _ in range(max(megabytes * 10**6 // (AT_ONCE * VALUE_BYTES), 1)):
        Librdkafka().produce(bootstrap, TOPIC, records)


def row(broker: StandaloneBroker, splits: int) -> tuple[str, ...]:
    """The table's row for one Spark process that reads the topic in `splits` parallel tasks."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "e2e.spark.throughput_of", broker.bootstrap, TOPIC]
    with spent(broker) as used:
        done = subprocess.run(
            [*command, str(splits), str(end_offsets(broker.bootstrap, TOPIC, range(1))[0])],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    busy = used.cpu_s / (time.monotonic() - began_s)
    found = json.loads(done.stdout.splitlines()[-1])
    return (
        str(splits),
        f"{found['verified']:.1f}",
        f"{found['core']:.1f}",
        f"{found['read']:.1f}",
        f"{busy:.0%}",
    )


if __name__ == "__main__":
    main()
