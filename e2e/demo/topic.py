"""A step of the demo: apply the topic `orders`, and compare its leaders in the PartitionMap with
those that clients get."""

from collections import Counter

from rich.table import Table

from e2e.clients import topics
from e2e.cluster.console import console, step
from e2e.cluster.shell import run
from e2e.demo.checking import LIMIT_S, check, until
from e2e.kafka import debian
from e2e.main.broker_cluster import ORDERS, BrokerClusterUnderTest
from e2e.main.cluster_metadata import ClientMetadata, client_metadata

TOPIC, PARTITIONS = "orders", 6
READ_LIMIT_S = 60
OTHER_PRODUCER = (
    f"if another program writes to {TOPIC}, end it and run `make demo` again; otherwise this is a "
    "bug of Chiplog"
)


def apply(cluster: BrokerClusterUnderTest) -> None:
    """Apply the example as a user does; returns when each broker leads two partitions.

    The BrokerCluster in the file must equal the one that helm has installed.
    """
    generation = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"]
    with step("applying it"):
        cluster.kubectl("apply", "--server-side", "-f", str(ORDERS))
        now = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"]
        check(
            now == generation,
            expected=f"the BrokerCluster in {ORDERS.name} equals that of the chart, so that "
            f"metadata.generation of brokercluster/{cluster.name} stays {generation}",
            found=f"generation {now}: applying the file changed the spec",
            remedy=f"if brokercluster/{cluster.name} was edited, just run `make demo` again",
        )
        cluster.wait_cluster_ready(LIMIT_S)
        cluster.wait_ready("ct", TOPIC, LIMIT_S)
    # True at once for a new topic. After restarts of brokers, preferred leaders are elected again
    # once the cluster has been stable for half a minute.
    with step("waiting until each broker leads two partitions"):
        until(f"two leaders of {TOPIC} on each broker", lambda: spread(cluster))


def show(cluster: BrokerClusterUnderTest) -> None:
    """Print the leaders, once kcat gets the same as the PartitionMap has."""
    console.print(cluster.kubectl("get", "brokerclusters,topics").strip(), markup=False)
    answer = until(f"two leaders of {TOPIC} on each broker", lambda: spread(cluster))
    table = Table("broker", "address that is advertised to clients", "leads")
    for broker, address in sorted(answer.brokers.items()):
        led = [n for n, leader in sorted(answer.leaders[TOPIC].items()) if leader == broker]
        table.add_row(str(broker), address, ", ".join(f"{TOPIC}-{number}" for number in led))
    console.print(table)
    console.print("kcat gets the same leaders as the PartitionMap: each of three brokers leads two")


def spread(cluster: BrokerClusterUnderTest) -> ClientMetadata:
    """The metadata that kcat gets.

    Raises `AssertionError` unless the PartitionMap has the same leaders and each broker leads two
    partitions.
    """
    # In the map a leader is BROKER@SESSION; -1 is none, as in Metadata.
    leaders = {
        int(one["partition"]): int(one["leader"].partition("@")[0]) if one.get("leader") else -1
        for one in cluster.partitions_of(TOPIC)
    }
    answer = client_metadata(cluster.bootstrap)
    found = answer.leaders.get(TOPIC, {})
    assert found == leaders, f"leaders: kcat gets {found}, the PartitionMap has {leaders}"
    assert answer.is_whole(TOPIC, PARTITIONS), f"leaders {found}, brokers {sorted(answer.brokers)}"
    assert sorted(answer.led(TOPIC).values()) == [2, 2, 2], f"leaders by partition: {found}"
    return answer


def end_offsets(bootstrap: str) -> list[int]:
    """The end offset of each partition of the topic, once clients can get all."""
    return until(
        f"the end offset of each partition of {TOPIC}",
        lambda: topics.end_offsets(bootstrap, TOPIC, range(PARTITIONS)),
    )


def check_texts(bootstrap: str, before: list[int], texts: list[str]) -> None:
    """Check with kcat that the topic has exactly these records from the offsets `before` on, each
    once.

    kcat shares no code with the programs that wrote them.
    """
    found = until(f"kcat reads {len(texts)} records", lambda: all_texts(bootstrap, before, texts))
    others = Counter(found) - Counter(texts)
    check(
        not others,
        expected=f"kcat reads the {len(texts)} records that were sent, each once, and no others",
        found=f"{others.total()} other or duplicate records, like {next(iter(others), '')}",
        remedy=OTHER_PRODUCER,
    )
    console.print(f"kcat reads the same {len(found)} records")


def all_texts(bootstrap: str, before: list[int], texts: list[str]) -> list[str]:
    """All records from the offsets `before` on; raises `AssertionError` if one of `texts` is
    missing.

    Just after a change of leader, the high watermark may be lower than the stored records for a
    moment: callers try again.
    """
    found: list[str] = []
    for partition, (begin, end) in enumerate(zip(before, end_offsets(bootstrap), strict=True)):
        if end > begin:
            found += run(
                *(debian.program("kcat"), "-C", "-b", bootstrap, "-t", TOPIC, "-q", "-e"),
                *("-p", str(partition), "-o", str(begin), "-c", str(end - begin), "-f", "%s\\n"),
                timeout_s=READ_LIMIT_S,
            ).splitlines()
    missing = Counter(texts) - Counter(found)
    assert not missing, f"{missing.total()} records are missing, like {next(iter(missing))}"
    return found
