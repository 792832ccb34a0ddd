"""The demo from its first line to its last."""

import sys

from e2e.cluster.console import Refused, console, step
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import CommandFailed
from e2e.cluster.target import Target, current_target
from e2e.demo import compaction, failover, install, topic, volumes
from e2e.demo.first_program import consume, produce
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator

NAMESPACE = "demo"


def main() -> None:
    """Run the demo; a refusal is one line, a broken promise a sentence and exit status 1."""
    try:
        target = current_target()
        cluster = run(target)
    except Refused as refused:
        console.print(f"demo: {refused}", markup=False)
        sys.exit(2)
    except (AssertionError, CommandFailed, TimeoutError) as broken:
        console.print(f"demo: {broken}", markup=False, style="red")
        sys.exit(1)
    console.print("\nIt is left running: `make cluster-down` ends it.")
    console.print(f"bootstrap: {cluster.bootstrap}")
    console.print(f"kubeconfig: {target.kubeconfig}")


def run(target: Target) -> BrokerClusterUnderTest:
    """Every step in its order."""
    title("1. A Kubernetes of three nodes, and the images in it")
    target.up(fresh=False)
    operator = Operator.on(target)
    cluster = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE))

    title("2. helm install: the operator, and a cluster of three brokers")
    with step("installing both charts"):
        install.charts(operator, cluster)
    install.show(operator, cluster)

    title(
        "3. kubectl apply -f examples/orders.yaml: a topic with six partitions, three replicas each"
    )
    with step("applying it"):
        topic.apply(cluster)
    topic.show(cluster)

    title("4. A first program with kafka-python: keyed JSON in, and out in the order of each key")
    before = topic.end_offsets(cluster.bootstrap)
    orders = produce(cluster.bootstrap)
    topic.check_texts(cluster.bootstrap, before, [one.text for one in orders])
    consume(cluster.bootstrap, before, orders)

    title("5. On the volumes: Kafka's own segment files")
    volumes.show(cluster)

    title("6. A compacted topic, before and after: the last price of each product stays")
    compaction.show(cluster)

    title("7. A leader's pod is killed while orders come in")
    failover.kill_leader(cluster, before, [one.text for one in orders])
    return cluster


def title(text: str) -> None:
    console.print(f"\n[bold]{text}[/]")
