"""A step of the demo: show the segment files, as the pods list them and as they are on the
volumes."""

from rich.table import Table

from e2e.cluster import layout
from e2e.cluster.console import console
from e2e.cluster.target import Local, current_target
from e2e.demo.checking import until
from e2e.demo.topic import TOPIC
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import client_metadata


def show(cluster: BrokerClusterUnderTest) -> None:
    """Print the segment files that `kubectl exec` lists.

    On the local cluster they are compared with the files in the volumes' directories.
    """
    found = until(
        "the pods list the segment files that are on the volumes", lambda: segments(cluster)
    )
    table = Table("volume of", "segment file", "bytes", title=TOPIC)
    for pod, name, size in found:
        table.add_row(pod, name, str(size))
    console.print(table)
    if isinstance(current_target(), Local):
        console.print(f"{layout.VOLUMES} on this machine has the same files with the same sizes")


def segments(cluster: BrokerClusterUnderTest) -> list[tuple[str, str, int]]:
    """(pod, file, bytes) of each segment file on the partitions' leaders.

    Raises `AssertionError` if pod and volume differ, or if a leader has no records.
    """
    found = []
    leaders = client_metadata(cluster.bootstrap).leaders[TOPIC]
    for partition, broker in sorted(leaders.items(), key=lambda one: (one[1], one[0])):
        pod = f"{cluster.name}-broker-{broker}-0"
        listed = cluster.segments(pod, TOPIC, partition)
        assert sum(listed.values()) > 0, f"{pod} has no bytes of {TOPIC}-{partition}"
        if isinstance(current_target(), Local):
            stored = on_volume(cluster, pod, partition)
            assert stored == listed, (
                f"{TOPIC}-{partition}: the volume has {stored}, {pod} lists {listed}"
            )
        found += [
            (pod, f"{TOPIC}-{partition}/{name}", size) for name, size in sorted(listed.items())
        ]
    return found


def on_volume(cluster: BrokerClusterUnderTest, pod: str, partition: int) -> dict[str, int]:
    """Name -> bytes of the partition's segment files in the volume's directory on this machine."""
    volume = cluster.kubectl.get("pvc", f"data-{pod}")["spec"]["volumeName"]
    found = [
        path for path in layout.VOLUMES.rglob(f"{TOPIC}-{partition}/*.log") if volume in path.parts
    ]
    return {path.name: path.stat().st_size for path in found}
