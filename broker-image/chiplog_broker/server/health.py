"""What the kubelet's probes are told, kept apart from how they ask.

Start-up ends when every log is recovered and the broker is a member of its cluster; ready
means that clients are served and that the replicas have caught up; alive means that the
event loop turns and a log directory can still be written.
"""

from collections.abc import Callable
from dataclasses import dataclass

Answer = tuple[bool, str]


@dataclass(slots=True)
class Health:
    """The broker's own view of itself; written by its parts, read by the probes."""

    logs_recovered: int = 0
    logs_total: int = 0
    started: bool = False
    serving: bool = False
    log_directory_offline: str = ""
    waiting_for: str = ""
    """What the start waits for, where it is not for recovery."""
    catching_up: Callable[[], Answer] = lambda: (True, "ready")
    """Whether the replicas have caught up, and what is missing."""
    incarnation: str | None = None
    """The name of this process to the operator; None where there is none."""

    def startup(self) -> Answer:
        """(passed, text) of `/startupz`; the text shows how far recovery is."""
        if self.started:
            return True, "started"
        if self.waiting_for:
            return False, self.waiting_for
        return False, f"recovering logs: {self.logs_recovered} of {self.logs_total}"

    def readiness(self) -> Answer:
        """(passed, text) of `/readyz`."""
        if not self.started:
            return self.startup()
        return self.catching_up() if self.serving else (False, "not serving clients")

    def liveness(self) -> Answer:
        """(passed, text) of `/livez`: an answer at all shows that the event loop turns."""
        if self.log_directory_offline:
            return False, f"log directory offline: {self.log_directory_offline}"
        return True, "alive"
