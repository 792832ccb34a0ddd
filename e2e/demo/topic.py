"""The topic `orders`: applied, and its leaders as the map, and as clients, see them."""

from collections import Counter

from rich.table import Table

from e2e.clients import topics
from e2e.cluster.console import console
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import run
from e2e.kafka import debian
from e2e.main.broker_cluster import ORDERS, BrokerClusterUnderTest
from e2e.main.cluster_metadata import told

TOPIC, PARTITIONS = "orders", 6
SPREAD_LIMIT_S = 120


def apply(cluster: BrokerClusterUnderTest) -> None:
    """Apply the example as a user does; the cluster in it is the one helm has just installed."""
    generation = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"]
    cluster.kubectl("apply", "--server-side", "-f", str(ORDERS))
    same = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"] == generation
    assert same, "applied over helm's, examples/orders.yaml changed the cluster"
    cluster.wait_cluster_ready()
    cluster.wait_ready("ct", TOPIC)
    bootstrap = cluster.bootstrap
    eventually("clients are told of it", lambda: told(bootstrap).is_whole(TOPIC, PARTITIONS), 30)
    # At once where all is new. After brokers were restarted by another image, leaderships go back
    # to where they belong when the cluster has been at rest for half a minute.
    eventually(
        "two leaders on each broker",
        lambda: sorted(told(bootstrap).led(TOPIC).values()) == [2, 2, 2],
        SPREAD_LIMIT_S,
    )


def show(cluster: BrokerClusterUnderTest) -> None:
    """Leaders from the PartitionMap, held against what kcat is told."""
    console.print(cluster.kubectl("get", "cbc,ct").strip(), markup=False)
    leaders = {
        int(one["partition"]): int(one["leader"].partition("@")[0])
        for one in cluster.partitions_of(TOPIC)
    }
    answer = told(cluster.bootstrap)
    table = Table("broker", "address clients are told", "leads")
    for broker, address in sorted(answer.brokers.items()):
        led = [
            f"{TOPIC}-{number}" for number, leader in sorted(leaders.items()) if leader == broker
        ]
        table.add_row(str(broker), address, ", ".join(led))
    console.print(table)
    assert answer.leaders[TOPIC] == leaders, f"kcat is told {answer}, the map says {leaders}"
    assert sorted(answer.led(TOPIC).values()) == [2, 2, 2], answer
    console.print("kcat is told the same: two leaders on each of three brokers")


def end_offsets(bootstrap: str) -> list[int]:
    return topics.end_offsets(bootstrap, TOPIC, range(PARTITIONS))


def check_texts(bootstrap: str, before: list[int], texts: list[str]) -> None:
    """Count and content by kcat, which shares no line of code with who wrote them: every text
    after the offsets `before`, each exactly once, and nothing else."""
    found = []
    for partition, (begin, end) in enumerate(zip(before, end_offsets(bootstrap), strict=True)):
        if end > begin:
            found += run(
                *(debian.program("kcat"), "-C", "-b", bootstrap, "-t", TOPIC, "-q", "-e"),
                *("-p", str(partition), "-o", str(begin), "-c", str(end - begin), "-f", "%s\\n"),
                timeout_s=60,
            ).splitlines()
    missing = Counter(texts) - Counter(found)
    assert not missing, f"{missing.total()} records are missing, {next(iter(missing))} is one"
    assert len(found) == len(texts), f"kcat reads {len(found)} records, sent were {len(texts)}"
    console.print(f"kcat reads the same {len(found)} records")
