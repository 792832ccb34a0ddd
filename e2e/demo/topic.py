"""The topic `orders`: applied, and its leaders as the map, and as clients, see them."""

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
SOMEBODY_ELSE = (
    f"does another program write to {TOPIC}? End it and run `make demo` again; if not, it is a bug"
)


def apply(cluster: BrokerClusterUnderTest) -> None:
    """Apply the example as a user does; the cluster in it is the one helm has just installed."""
    generation = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"]
    with step("applying it"):
        cluster.kubectl("apply", "--server-side", "-f", str(ORDERS))
        now = cluster.kubectl.get("cbc", cluster.name)["metadata"]["generation"]
        check(
            now == generation,
            expected=f"the BrokerCluster in {ORDERS.name} to be what the chart made: generation "
            f"{generation}",
            found=f"generation {now}, so applying it changed the cluster",
            remedy="did somebody else edit brokercluster/demo? Run `make demo` again",
        )
        cluster.wait_cluster_ready(LIMIT_S)
        cluster.wait_ready("ct", TOPIC, LIMIT_S)
    # At once where all is new. After brokers were restarted, leaderships go back to where they
    # belong when the cluster has been at rest for half a minute.
    with step("waiting until each broker leads two partitions"):
        until(f"two leaders of {TOPIC} on each broker", lambda: spread(cluster))


def show(cluster: BrokerClusterUnderTest) -> None:
    """Leaders from the PartitionMap, compared with what kcat gets."""
    console.print(cluster.kubectl("get", "brokerclusters,topics").strip(), markup=False)
    answer = until(f"two leaders of {TOPIC} on each broker", lambda: spread(cluster))
    table = Table("broker", "address that is advertised to clients", "leads")
    for broker, address in sorted(answer.brokers.items()):
        led = [n for n, leader in sorted(answer.leaders[TOPIC].items()) if leader == broker]
        table.add_row(str(broker), address, ", ".join(f"{TOPIC}-{number}" for number in led))
    console.print(table)
    console.print("kcat gets the same leaders as the PartitionMap: each of three brokers leads two")


def spread(cluster: BrokerClusterUnderTest) -> ClientMetadata:
    """What kcat gets, where the map says the same and each broker leads two partitions.

    Raises `AssertionError` with what differs.
    """
    leaders = {
        int(one["partition"]): int(one["leader"].partition("@")[0]) if one.get("leader") else -1
        for one in cluster.partitions_of(TOPIC)
    }
    answer = client_metadata(cluster.bootstrap)
    found = answer.leaders.get(TOPIC, {})
    assert found == leaders, f"kcat is told leaders {found}, the PartitionMap says {leaders}"
    assert answer.is_whole(TOPIC, PARTITIONS), f"leaders {found}, brokers {sorted(answer.brokers)}"
    assert sorted(answer.led(TOPIC).values()) == [2, 2, 2], f"partition: leader {found}"
    return answer


def end_offsets(bootstrap: str) -> list[int]:
    return until(
        f"the offset at which each partition of {TOPIC} ends",
        lambda: topics.end_offsets(bootstrap, TOPIC, range(PARTITIONS)),
    )


def check_texts(bootstrap: str, before: list[int], texts: list[str]) -> None:
    """Count and content by kcat, which shares no line of code with who wrote them: every text
    after the offsets `before`, each exactly once, and nothing else."""
    found = until(f"kcat reads {len(texts)} records", lambda: all_texts(bootstrap, before, texts))
    others = Counter(found) - Counter(texts)
    check(
        not others,
        expected=f"kcat reads the {len(texts)} records that were sent, each once, and no other",
        found=f"{others.total()} more; one is {next(iter(others), '')}",
        remedy=SOMEBODY_ELSE,
    )
    console.print(f"kcat reads the same {len(found)} records")


def all_texts(bootstrap: str, before: list[int], texts: list[str]) -> list[str]:
    """What kcat reads; raises `AssertionError` where one of `texts` is not among it.

    Right after another broker began to lead, consumers may see less for a moment than is stored.
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
    assert not missing, f"{missing.total()} records are missing; one is {next(iter(missing))}"
    return found
