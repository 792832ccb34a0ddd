"""A BrokerCluster as users see it: by kubectl, and at the bootstrap address in its status."""

import json
from dataclasses import dataclass
from typing import Any

import yaml

from chiplog_core.naming import labels, names
from e2e.cluster import layout
from e2e.cluster.kubectl import Kubectl, eventually

ORDERS = layout.CHECKOUT / "examples" / "orders.yaml"
EXTERNAL = "external"
READY_LIMIT_S = 90
DATA = names.DATA_PATH

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Life:
    """Identifies a process of a pod: with another uid or another restart count it is another
    one."""

    uid: str
    restarts: int


@dataclass(frozen=True, slots=True)
class BrokerClusterUnderTest:
    """One BrokerCluster; `kubectl` uses its namespace."""

    kubectl: Kubectl
    name: str = "demo"

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients outside the cluster, from its status."""
        status = self.kubectl.get("cbc", self.name).get("status", {})
        found = [
            one["bootstrapServers"]
            for one in status.get("listeners", ())
            if one["name"] == EXTERNAL
        ]
        assert len(found) == 1, f"status names no listener {EXTERNAL}: {json.dumps(status)}"
        return str(found[0])

    def wait_ready(self, kind: str, name: str, limit_s: float = READY_LIMIT_S) -> float:
        """Wait until an object's condition Ready is True for its newest spec.

        Returns the seconds it took.
        """

        def ready() -> bool:
            one = self.kubectl.get(kind, name)
            assert is_ready(one), shown(one)
            return True

        return eventually(f"{kind}/{name} is Ready", ready, limit_s)

    def wait_cluster_ready(self, limit_s: float = READY_LIMIT_S) -> float:
        return self.wait_ready("cbc", self.name, limit_s)

    def wait_gone(self, kind: str, name: str, limit_s: float = READY_LIMIT_S) -> float:
        """Wait until the object does not exist; returns the seconds it took."""

        def gone() -> bool:
            left = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json").strip()
            assert not left, shown(json.loads(left))
            return True

        return eventually(f"{kind}/{name} is gone", gone, limit_s)

    def own(self, kinds: str) -> list[Manifest]:
        """The objects of these kinds (like "sts,svc") that belong to this cluster."""
        items: list[Manifest] = self.kubectl.get(kinds)["items"]
        return [one for one in items if self.name in {cluster_by_label(one), cluster_by_spec(one)}]

    def uids(self, kinds: str) -> dict[str, str]:
        """Name -> uid of the objects of these kinds that belong to this cluster."""
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in self.own(kinds)}

    def pods(self) -> list[Manifest]:
        """The pods of the brokers."""
        selector = f"{labels.CLUSTER}={self.name},{labels.COMPONENT}={labels.BROKER}"
        found: list[Manifest] = self.kubectl.get("pods", "-l", selector)["items"]
        return found

    def broker_pods(self) -> dict[str, Life]:
        """Name of a broker's pod -> its current process."""
        return {
            pod["metadata"]["name"]: Life(pod["metadata"]["uid"], restarts(pod))
            for pod in self.pods()
        }

    def map_of(self, topic_name: str) -> Manifest:
        """The PartitionMap of a topic."""
        found: Manifest = self.kubectl.get("pmap", names.partition_map(self.name, topic_name))
        return found

    def partitions_of(self, topic_name: str) -> list[Manifest]:
        """The entries of the topic's current generation in its PartitionMap."""
        spec = self.map_of(topic_name)["spec"]
        current = [one for one in spec["generations"] if one["topicId"] == spec.get("current")]
        assert len(current) == 1, json.dumps(spec)
        partitions: list[Manifest] = current[0]["partitions"]
        return partitions

    def epochs(self) -> dict[str, tuple[object, ...]]:
        """Sessions of all brokers; leader, leader epoch and ISR of all partitions.

        Two results are equal if no broker was admitted or fenced and nothing moved in between.
        """
        found: dict[str, tuple[object, ...]] = {
            f"broker {one['metadata']['name']}": (
                one["spec"]["session"],
                one["spec"].get("admittedIncarnation"),
                one["spec"].get("fenced", False),
            )
            for one in self.own("brk")
        }
        for one in self.own("pmap"):
            topic = one["spec"]["topicName"]
            for generation in one["spec"].get("generations", ()):
                for each in generation["partitions"]:
                    where = f"{topic}-{each['partition']}"
                    found[where] = (each.get("leader"), each["leaderEpoch"], each["isr"])
        return found

    def segments(self, pod: str, topic: str, partition: int) -> dict[str, int]:
        """Name -> bytes of a partition's segment files on a broker's volume, listed by kubectl
        exec."""
        directory = f"{DATA}/{topic}-{partition}"
        script = f"import os; [print(e.name, e.stat().st_size) for e in os.scandir({directory!r})]"
        listed = self.kubectl.execute(pod, "python3", "-c", script)
        pairs = (line.split() for line in listed.splitlines())
        return {name: int(size) for name, size in pairs if name.endswith(".log")}


def cluster_by_label(one: Manifest) -> str:
    return str(one["metadata"].get("labels", {}).get(labels.CLUSTER, ""))


def cluster_by_spec(one: Manifest) -> str:
    """The cluster that a Broker or PartitionMap names in its spec; "" for other kinds."""
    spec = one.get("spec", {})
    return str(spec.get("cluster", "")) if one["kind"] in {"Broker", "PartitionMap"} else ""


def is_ready(one: Manifest) -> bool:
    """Whether the condition Ready is True and its observedGeneration is the newest."""
    generation = one["metadata"]["generation"]
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and condition["observedGeneration"] == generation
        for condition in one.get("status", {}).get("conditions", ())
    )


def shown(one: Manifest) -> str:
    """An object's name and status, for the message of a failed wait."""
    seen = {name: one["metadata"].get(name) for name in ("generation", "deletionTimestamp")}
    return f"{one['kind']} {one['metadata']['name']} {seen}: {json.dumps(one.get('status'))}"


def restarts(pod: Manifest) -> int:
    """The restart counts of the pod's containers together."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return sum(int(one["restartCount"]) for one in statuses)


def example(config: dict[str, object]) -> str:
    """`examples/orders.yaml`, with these keys added to the broker configuration."""
    cluster, topic = yaml.safe_load_all(ORDERS.read_text())
    cluster["spec"]["config"] = {**cluster["spec"].get("config", {}), **config}
    return str(yaml.safe_dump_all([cluster, topic]))


def topic_manifest(
    name: str, partitions: int = 1, cluster: str = "demo", **spec: object
) -> Manifest:
    """A Topic's manifest; `spec` adds or replaces fields."""
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": name},
        "spec": {
            "clusterRef": {"name": cluster},
            "partitions": partitions,
            "replicas": 1,
            **spec,
        },
    }
