"""The rate limit of a job, applied in each of its tasks."""

from dataclasses import dataclass


def share_of(bytes_per_second: int | None, parallel_tasks: int) -> float | None:
    """The bytes per second that one task may read; None for no limit.

    Tasks do not know of each other, so each gets the same share, and unused shares are lost: the
    limit is never exceeded.
    """
    if bytes_per_second is None:
        return None
    return bytes_per_second / max(parallel_tasks, 1)


@dataclass(slots=True)
class Pace:
    """Limits the rate of reading since `began_s`; None means no limit."""

    bytes_per_second: float | None
    began_s: float
    read_bytes: int = 0

    def wait_s(self, size_bytes: int, now_s: float) -> float:
        """Count bytes that were read; returns the seconds to wait before the next read."""
        self.read_bytes += size_bytes
        if self.bytes_per_second is None:
            return 0.0
        due_s = self.began_s + self.read_bytes / self.bytes_per_second
        return max(due_s - now_s, 0.0)
