"""The segment files, seen through the pods and on the volumes themselves."""

from rich.table import Table

from e2e.cluster import layout
from e2e.cluster.console import console
from e2e.cluster.target import Local, current_target
from e2e.demo.topic import TOPIC
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import told


def show(cluster: BrokerClusterUnderTest) -> None:
    """What `kubectl exec` lists, held against the folders of the volumes where they are ours."""
    table = Table("volume of", "segment file", "bytes", title=TOPIC)
    leaders = told(cluster.bootstrap).leaders[TOPIC]
    for partition, broker in sorted(leaders.items(), key=lambda one: (one[1], one[0])):
        pod = f"{cluster.name}-broker-{broker}-0"
        segments = cluster.segments(pod, TOPIC, partition)
        assert sum(segments.values()) > 0, f"{pod} holds nothing of {TOPIC}-{partition}"
        for name, size in sorted(segments.items()):
            table.add_row(pod, f"{TOPIC}-{partition}/{name}", str(size))
        if isinstance(current_target(), Local):
            stored = on_volume(cluster, pod, partition)
            assert stored == segments, f"on the volume {stored}, in the pod {segments}"
    console.print(table)


def on_volume(cluster: BrokerClusterUnderTest, pod: str, partition: int) -> dict[str, int]:
    """The same files where the cluster keeps its volumes, without asking the pod."""
    volume = cluster.kubectl.get("pvc", f"data-{pod}")["spec"]["volumeName"]
    found = [
        path for path in layout.VOLUMES.rglob(f"{TOPIC}-{partition}/*.log") if volume in path.parts
    ]
    return {path.name: path.stat().st_size for path in found}
