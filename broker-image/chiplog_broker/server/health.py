"""The state of the broker for the kubelet's probes, separate from HTTP.

The start-up probe passes when every log is recovered and the broker is a member of its cluster.
Ready means that clients are served and the replicas have caught up. Live means that the event loop
runs and a log directory can still be written.
"""

from collections.abc import Callable
from dataclasses import dataclass

Answer = tuple[bool, str]
"""Whether a probe passes, and a text for people."""


@dataclass(slots=True)
class Health:
    """The state of the broker: other components write it, probes read it."""

    logs_recovered: int = 0
    logs_total: int = 0
    started: bool = False
    serving: bool = False
    log_directory_offline: str = ""
    waiting_for: str = ""
    """What the start waits for if it is not the recovery of logs; else empty."""
    catching_up: Callable[[], Answer] = lambda: (True, "ready")
    """Returns whether the replicas have caught up, and a text with what is missing."""
    incarnation: str | None = None
    """The incarnation of this process; None for a standalone broker."""

    def startup(self) -> Answer:
        """The answer to `/startupz`; the text shows the progress of recovery."""
        if self.started:
            return True, "started"
        if self.waiting_for:
            return False, self.waiting_for
        return False, f"recovering logs: {self.logs_recovered} of {self.logs_total}"

    def readiness(self) -> Answer:
        """The answer to `/readyz`: the broker is ready once it serves clients and all its replicas
        have caught up."""
        if not self.started:
            return self.startup()
        return self.catching_up() if self.serving else (False, "not serving clients")

    def liveness(self) -> Answer:
        """The answer to `/livez`. It fails if the log directory cannot be written; that there is an
        answer at all shows that the event loop runs."""
        if self.log_directory_offline:
            return False, f"log directory offline: {self.log_directory_offline}"
        return True, "alive"
