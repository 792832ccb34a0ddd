"""Apache Kafka's answers, as they were recorded."""

import json
from pathlib import Path
from typing import Final

from e2e.security.matrix import Matrix, compact, expanded

RECORDED: Final = Path(__file__).with_name("kafka.json")


def read() -> Matrix:
    return expanded(json.loads(RECORDED.read_text()))


def write(found: Matrix) -> None:
    """One line for each different answer, so that a change is easy to read."""
    lines = []
    for request, entries in compact(found).items():
        of_request = ",\n  ".join(json.dumps(entry, sort_keys=True) for entry in entries)
        lines.append(f"{json.dumps(request)}: [\n  {of_request}\n]")
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
