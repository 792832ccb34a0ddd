"""What nodes would do for a broker: its pod, as the operator sees it, and word of its end.

The operator believes that a process ended when the kubelet says so, and else waits until its Lease
has expired. There is no kubelet here, so its word is written here, as late as the slowest of those
that were measured on the local cluster came (0.33 to 0.74 s from kill -9 to a watcher).
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
    """Its own on loopback, where the operator checks whether its process runs."""
    _reporting: threading.Timer | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return names.pod(self.cluster, self.broker_id)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create(self, stateful_set: Manifest) -> None:
        """Create the pod as its controller would; it is Ready at once, since nothing here waits for
        that."""
        template = stateful_set["spec"]["template"]
        claim = {"claimName": names.volume_claim(self.cluster, self.broker_id)}
        volume = {"name": VOLUME, "persistentVolumeClaim": claim}
        spec = {**template["spec"], "nodeName": NODE}
        spec["volumes"] = [*spec.get("volumes", []), volume]
        pod = {"metadata": {**template["metadata"], "name": self.name}, "spec": spec}
        self.server.ask("POST", self._path, pod)
        self.started()

    def started(self) -> None:
        """A process runs in it; what was reported of the one before stays reported."""
        if self._reporting is not None:
            self._reporting.join()
        # The kubelet makes the file for each container again.
        ended = self.termination_log.read_text() if self.termination_log.exists() else ""
        self.termination_log.write_text("")
        last = {"lastState": terminated(ended)} if ended else {}
        self._say("True", {"name": "broker", "state": {"running": {}}, **last})

    def was_killed(self) -> None:
        """Tell so, some time from now."""
        status = {"name": "broker", "state": terminated(self.termination_log.read_text())}
        self._reporting = threading.Timer(REPORTED_AFTER_S, self._say, ("False", status))
        self._reporting.daemon = True
        self._reporting.start()

    def _say(self, ready: str, container: Manifest) -> None:
        status = {
            "phase": "Running",
            "podIP": self.address,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [container],
        }
        self.server.ask("PATCH", f"{self._path}/{self.name}/status", {"status": status})


def terminated(incarnation: str) -> Manifest:
    """The state of a container whose process was killed; the name is what it wrote itself."""
    return {"terminated": {"exitCode": 137, "reason": "Error", "message": incarnation}}
