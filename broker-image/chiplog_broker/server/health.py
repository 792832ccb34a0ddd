"""What the kubelet's probes are told, kept apart from how they ask.

Start-up ends when every log is recovered; ready means that clients are served; alive
means that the event loop turns and a log directory can still be written.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Health:
    """The broker's own view of itself; written by its parts, read by the probes."""

    logs_recovered: int = 0
    logs_total: int = 0
    started: bool = False
    serving: bool = False
    log_directory_offline: str = ""

    def startup(self) -> tuple[bool, str]:
        """(passed, text) of `/startupz`; the text shows how far recovery is."""
        if self.started:
            return True, "started"
        return False, f"recovering logs: {self.logs_recovered} of {self.logs_total}"

    def readiness(self) -> tuple[bool, str]:
        """(passed, text) of `/readyz`."""
        if not self.started:
            return self.startup()
        return self.serving, "ready" if self.serving else "not serving clients"

    def liveness(self) -> tuple[bool, str]:
        """(passed, text) of `/livez`: an answer at all shows that the event loop turns."""
        if self.log_directory_offline:
            return False, f"log directory offline: {self.log_directory_offline}"
        return True, "alive"
