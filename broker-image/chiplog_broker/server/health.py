"""The state of the broker for the kubelet's probes, separate from HTTP.

The start-up probe passes when every log is recovered and the broker is a member of its cluster.
Ready means that clients are served and the replicas have caught up. Live means that the event loop
runs and a log directory can still be written.
"""

from collections.abc import Callable
from dataclasses import dataclass

Answer = tuple[bool, str]


@dataclass(slots=True)
class Health:
    """The state of the broker. Its parts write it, probes read it."""

    logs_recovered: int = 0
    logs_total: int = 0
    started: bool = False
    serving: bool = False
    log_directory_offline: str = ""
    waiting_for: str = ""
    """The reason why the start waits, if it is not recovery."""
    catching_up: Callable[[], Answer] = lambda: (True, "ready")
    """Whether the replicas have caught up, and what is missing."""
    incarnation: str | None = None
    """The incarnation of this process; None for a standalone broker."""

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
