"""Measures the CPU time and memory of processes."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time up to now and the resident memory of a process, or of several together."""

    cpu_s: float = 0.0
    rss_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.cpu_s + other.cpu_s, self.rss_bytes + other.rss_bytes)


def of_process(pid: int) -> Usage:
    """CPU time since its start, of all its threads, and memory resident now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, pages = int(fields[11]), int(fields[12]), int(fields[21])
    return Usage((user + system) / TICKS_PER_S, pages * PAGE_BYTES)
