"""What a node would do for a broker: create its pod's status, and report the end of its process.

The operator takes a process as ended when the kubelet reports it, and otherwise waits until its
Lease has expired. There is no kubelet here, so this module writes the report, with the longest
delay that was measured on the local cluster (0.33 to 0.74 s from kill -9 until a watch reported
it).
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from e2e.loopback.api_server import ApiServer, Manifest

REPORTED_AFTER_S = 0.74
NODE = "loopback"
VOLUME = "data"


@dataclass(slots=True)
class Pod:
    """The pod of one broker's StatefulSet."""

    server: ApiServer
    cluster: str
    namespace: str
    broker_id: BrokerId
    termination_log: Path
    address: str
    """The broker's address on loopback, at which the operator checks whether it runs."""
    _reporting: threading.Timer | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return names.pod(self.cluster, self.broker_id)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create(self, stateful_set: Manifest) -> None:
        """Create the pod as the StatefulSet controller would; it is Ready at once."""
        template = stateful_set["spec"]["template"]
        claim = {"claimName": names.volume_claim(self.cluster, self.broker_id)}
        volume = {"name": VOLUME, "persistentVolumeClaim": claim}
        spec = {**template["spec"], "nodeName": NODE}
        spec["volumes"] = [*spec.get("volumes", []), volume]
        pod = {"metadata": {**template["metadata"], "name": self.name}, "spec": spec}
        self.server.ask("POST", self._path, pod)
        self.started()

    def started(self) -> None:
        """Report that a new process runs, and the end of the one before as the last state.

        A report about the one before that is still delayed is waited for.
        """
        if self._reporting is not None:
            self._reporting.join()
        # A kubelet creates this file for each container; the broker writes its incarnation there.
        ended = self.termination_log.read_text() if self.termination_log.exists() else ""
        self.termination_log.write_text("")
        last = {"lastState": terminated(ended)} if ended else {}
        self._write_status("True", {"name": "broker", "state": {"running": {}}, **last})

    def was_killed(self) -> None:
        """Report after `REPORTED_AFTER_S` that the process was killed."""
        status = {"name": "broker", "state": terminated(self.termination_log.read_text())}
        self._reporting = threading.Timer(REPORTED_AFTER_S, self._write_status, ("False", status))
        self._reporting.daemon = True
        self._reporting.start()

    def _write_status(self, ready: str, container: Manifest) -> None:
        """Write the pod's status; `ready` is the status of its condition Ready."""
        status = {
            "phase": "Running",
            "podIP": self.address,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [container],
        }
        self.server.ask("PATCH", f"{self._path}/{self.name}/status", {"status": status})


def terminated(incarnation: str) -> Manifest:
    """The state of a container whose process was killed (128 + SIGKILL).

    The message is what the broker wrote as its termination message: its incarnation.
    """
    return {"terminated": {"exitCode": 137, "reason": "Error", "message": incarnation}}
