"""A BrokerCluster of three brokers; operator and brokers are processes of this machine."""

import base64
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog_core.ids import BrokerId
from chiplog_core.naming import api, names
from chiplog_core.naming.ports import HEALTH
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import CHECKOUT
from e2e.kafka.members import wait_for, wait_whole
from e2e.kafka.ports import LOOPBACK, free_ports, is_free
from e2e.kafka.running import Running
from e2e.loopback.api_server import ApiServer, Manifest
from e2e.loopback.child import Child, Supervised
from e2e.loopback.nodes import Pod

SIZE = 3
NAME, NAMESPACE, OPERATOR_NAMESPACE = "loopback", "loopback", "chiplog-system"
LISTENER = "external"
# Below the ports of `free_ports`, and outside of the usual range of node ports, which the kube-
# proxy of the local cluster uses on 127.0.0.1, too.
NODE_PORTS = range(23_000, 24_000)
NODE_PORTS_NEEDED = 16
"""Enough for the listeners of one cluster."""


class LoopbackCluster(Running):
    """Three brokers, their operator and an API server, which run while the `with` block runs."""

    title = "Chiplog"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are the cluster's `spec.config`, under Kafka's names."""
        super().__init__()
        self.directory, self.settings = directory, dict(settings or {})
        self.server = ApiServer(directory / "api", free_node_ports())
        # Random loopback addresses: all internal listeners have the same port, also those of other
        # clusters on this machine.
        second, third = (random.randrange(1, 255) for _ in range(2))  # noqa: S311
        self.addresses = {
            BrokerId(number): f"127.{second}.{third}.{number}" for number in range(1, SIZE + 1)
        }
        self.brokers: dict[int, Child] = {}
        self.pods: dict[int, Pod] = {}
        self.node_ports: dict[int, int] = {}
        self.metrics_ports: dict[int, int] = {}
        """Broker id -> port of its metrics on loopback."""
        self.metrics = ""
        """Address of the operator's metrics, host:port."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in self.node_ports.values())

    def ports(self) -> dict[int, int]:
        """Broker id -> port for clients, for the brokers that run."""
        return {n: port for n, port in self.node_ports.items() if self.brokers[n].runs}

    def kill(self, broker_id: int) -> None:
        """Kill a broker (SIGKILL); its pod's status reports that a moment later."""
        self.brokers[broker_id].kill()
        self.pods[broker_id].was_killed()

    def start_again(self, broker_id: int) -> None:
        """Start a killed broker again, without waiting until it is ready."""
        self.pods[broker_id].started()
        self.brokers[broker_id].start()

    def volume(self, broker_id: int) -> Path:
        """The directory that a broker has in place of its volume."""
        return self.directory / f"broker-{broker_id}" / "volume"

    def around(self, broker_id: int) -> Sequence[str | Path]:
        """The beginning of a broker's command line: a program that runs the rest; none by
        default."""
        return ()

    def api_port(self, broker_id: int) -> int:
        """The port on loopback at which a broker finds the API server."""
        return self.server.port

    def durability(self, wanted: str) -> Mapping[str, str]:
        """The setting for a durability, `Fsync` or `PageCache`."""
        return {"chiplog.durability": wanted}

    def start(self) -> None:
        """Start all programs in the order of an installation; returns when all brokers serve."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.running.enter_context(self.server)
        self._define()
        operator = self._operator()
        self.running.enter_context(Supervised(operator))
        self.server.ask("POST", own_path(api.BROKER_CLUSTER), broker_cluster(self.settings))
        try:
            for broker_id in self.addresses:
                self._start_broker(broker_id)
            wait_whole(self, SIZE, replicas=0)
        except TimeoutError as late:
            tails = [child.tail() for child in (operator, *self.brokers.values())]
            raise TimeoutError("\n".join([str(late), *self._conditions(), *tails])) from late

    def _conditions(self) -> list[str]:
        """The conditions of the BrokerCluster, for messages."""
        found = self.server.ask("GET", f"{own_path(api.BROKER_CLUSTER)}/{NAME}")
        return [str(one) for one in found.get("status", {}).get("conditions", [])]

    def _define(self) -> None:
        """Create the namespaces and Chiplog's CRDs."""
        kubectl = Kubectl(self.server.administrator(), NAMESPACE)
        for name in (NAMESPACE, OPERATOR_NAMESPACE):
            kubectl("create", "namespace", name)
        definitions = sorted((CHECKOUT / "crds").glob("*.yaml"))
        kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions))
        kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")

    def _operator(self) -> Child:
        """The operator's process, not started yet."""
        health, self.metrics = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        command: list[str | Path] = [
            *(sys.executable, "-m", "chiplog_operator"),
            *("--kubeconfig", self.server.administrator()),
            *("--namespace", OPERATOR_NAMESPACE, "--watch-namespaces", NAMESPACE),
            *("--health-address", health, "--metrics-address", self.metrics),
            *("--broker-image", "none", "--spark-image", "none"),
        ]
        return Child(command, self.directory / "operator.log")

    def _start_broker(self, broker_id: BrokerId) -> None:
        """Start a broker, once the operator has created the objects that its pod needs."""
        created: list[Manifest] = []

        def is_created() -> bool:
            found = self.server.find(stateful_set_path(broker_id))
            created.extend([found] if found else [])
            return bool(created)

        # The operator creates StatefulSets last: then the other objects exist, too.
        wait_for(f"the StatefulSet of broker {broker_id}", is_created)
        directory = self.directory / f"broker-{broker_id}"
        directory.mkdir()
        (container,) = created[0]["spec"]["template"]["spec"]["containers"]
        service = names.external_broker_service(NAME, broker_id)
        ports = self.server.ask("GET", core_path("services", service))["spec"]["ports"]
        (self.node_ports[broker_id],) = (p["nodePort"] for p in ports if p["name"] == LISTENER)
        termination_log = directory / "termination-log"
        address = self.addresses[broker_id]
        self.pods[broker_id] = Pod(
            self.server, NAME, NAMESPACE, broker_id, termination_log, address
        )
        self.pods[broker_id].create(created[0])
        broker = Child(self._command(broker_id, directory, container["args"]), directory / "output")
        self.brokers[broker_id] = broker
        self.running.callback(broker.kill)
        broker.start()

    def _command(
        self, broker_id: BrokerId, directory: Path, arguments: list[str]
    ) -> list[str | Path]:
        """The container's command with other paths and addresses than in a pod.

        `arguments` are those of the pod's container: alternately an option and its value.
        """
        names_file = self.directory / "names.json"
        names_file.write_text(json.dumps(self._host_names()))
        (self.metrics_ports[broker_id],) = free_ports(1)
        account = self.server.account_token(NAMESPACE, names.service_account(NAME, broker_id))
        volume = self.volume(broker_id)
        directory_of_account = self.server.account(f"broker-{broker_id}", account, NAMESPACE)
        elsewhere: dict[str, str | Path] = {
            "--config": self._properties(broker_id, directory),
            "--data": volume,
            "--credentials": self._credentials(directory),
            "--health-address": f"{self.addresses[broker_id]}:{HEALTH}",
            "--metrics-address": f"{LOOPBACK}:{self.metrics_ports[broker_id]}",
            "--namespace": NAMESPACE,
            "--termination-log": directory / "termination-log",
        }
        given: dict[str, str | Path] = dict(zip(arguments[::2], arguments[1::2], strict=True))
        volume.mkdir()
        return [
            *self.around(broker_id),
            *(sys.executable, "-m", "e2e.loopback.member"),
            *(
                names_file,
                self.addresses[broker_id],
                str(self.api_port(broker_id)),
                directory_of_account,
            ),
            *(word for pair in (given | elsewhere).items() for word in pair),
        ]

    def _host_names(self) -> dict[str, str]:
        """DNS name -> address of each broker's pod: there is no DNS server here."""
        service = names.brokers_service(NAME)
        return {
            f"{names.pod(NAME, broker_id)}.{service}.{NAMESPACE}.svc": address
            for broker_id, address in self.addresses.items()
        }

    def _properties(self, broker_id: BrokerId, directory: Path) -> Path:
        """Write the operator's configuration file, with the broker's node port as its listener."""
        found = self.server.ask("GET", core_path("configmaps", names.broker_config(NAME)))
        ((name, text),) = found["data"].items()
        lines = [line for line in text.splitlines() if not line.startswith("listeners=")]
        lines.append(f"listeners={LISTENER}://{LOOPBACK}:{self.node_ports[broker_id]}")
        path = directory / str(name)
        path.write_text("\n".join(lines) + "\n")
        return path

    def _credentials(self, directory: Path) -> Path:
        """Write the cluster's internal Secret as files, like a mounted Secret."""
        found = self.server.ask("GET", core_path("secrets", names.internal_secret(NAME)))
        secret = directory / "credentials"
        secret.mkdir(mode=0o700)
        for name, encoded in found["data"].items():
            (secret / name).write_bytes(base64.b64decode(encoded))
        return secret


class WithoutBrokers(LoopbackCluster):
    """An API server and an operator only, without a BrokerCluster."""

    def start(self) -> None:
        """Start the API server, create namespaces and CRDs in it, and start the operator."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.running.enter_context(self.server)
        self._define()
        self.running.enter_context(Supervised(self._operator()))


def free_node_ports() -> range:
    """`NODE_PORTS_NEEDED` consecutive ports on which nothing listens now."""
    starts = list(range(NODE_PORTS.start, NODE_PORTS.stop, NODE_PORTS_NEEDED))
    random.shuffle(starts)
    for start in starts:
        found = range(start, start + NODE_PORTS_NEEDED)
        if all(map(is_free, found)):
            return found
    raise OSError(
        f"no {NODE_PORTS_NEEDED} consecutive ports are free in the range from {NODE_PORTS.start} "
        f"to {NODE_PORTS.stop - 1}"
    )


def broker_cluster(settings: Mapping[str, str]) -> Manifest:
    """The BrokerCluster's manifest, with a listener for clients on loopback. No broker opens the
    one inside: it is the listener of jobs, of which only the objects are there."""
    inside = {"name": "plain", "type": "internal", "port": 9092}
    outside = {"name": LISTENER, "type": "nodeport", "port": 9094, "advertisedHost": LOOPBACK}
    return {
        "apiVersion": api.API_VERSION,
        "kind": api.BROKER_CLUSTER.kind,
        "metadata": {"name": NAME},
        "spec": {
            "replicas": SIZE,
            "storage": {"size": "100Gi"},
            "listeners": [inside, outside],
            "config": dict(settings),
        },
    }


def own_path(kind: api.ResourceKind) -> str:
    return f"/apis/{api.API_VERSION}/namespaces/{NAMESPACE}/{kind.plural}"


def core_path(plural: str, name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/{plural}/{name}"


def stateful_set_path(broker_id: BrokerId) -> str:
    return (
        f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{names.stateful_set(NAME, broker_id)}"
    )
