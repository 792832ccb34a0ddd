"""The demo from its first line to its last."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from e2e.clients.by_kafka_python import KafkaError
from e2e.cluster import images, spark_image
from e2e.cluster.console import Refused, console
from e2e.cluster.images import Image
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import CommandFailed
from e2e.cluster.target import Target, current_target
from e2e.demo import compaction, failover, first_program, install, next_steps, topic, volumes
from e2e.demo.checking import AGAIN, Broken, reason
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator

NAMESPACE = "demo"
UNEXPECTED = (
    *(AssertionError, CommandFailed, KafkaError, KafkaException, OSError, TimeoutError),
    subprocess.TimeoutExpired,
)
"""What the parts that the demo shares with tests raise."""


def main() -> None:
    """Run the demo.

    Exit status 2 where this machine cannot, 1 where something is not as it has to be; either is
    said in words, and so is what to do.
    """
    try:
        target = current_target()
        cluster = run(target)
    except Refused as refused:
        console.print(f"demo: {refused}", markup=False)
        sys.exit(2)
    except Broken as broken:
        console.print(f"demo: this step did not end well\n{broken}", markup=False, style="red")
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("demo: interrupted; what was begun still runs: `make cluster-down` ends it")
        sys.exit(130)
    console.print(next_steps.text(target, cluster), markup=False)


def run(target: Target) -> BrokerClusterUnderTest:
    """Every step in its order."""
    with part("1. A Kubernetes of three nodes, and the images in it"):
        target.up(fresh=False)
        operator = Operator.on(target, also=(spark(target),))
        cluster = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE))

    with part("2. helm install: the operator, and a cluster of three brokers"):
        install.charts(operator, cluster)
        install.show(operator, cluster)

    with part("3. kubectl apply -f examples/orders.yaml: a topic of six partitions, each on three"):
        topic.apply(cluster)
        topic.show(cluster)

    with part("4. A first program with kafka-python: keyed JSON in, and out in each key's order"):
        before = topic.end_offsets(cluster.bootstrap)
        orders = first_program.produce(cluster.bootstrap)
        topic.check_texts(cluster.bootstrap, before, [one.text for one in orders])
        first_program.consume(cluster.bootstrap, before, orders)

    with part("5. On the volumes: Kafka's own segment files"):
        volumes.show(cluster)

    with part("6. A compacted topic, before and after: the last price of each product stays"):
        compaction.show(cluster)

    with part("7. The broker that leads a partition is killed while orders come in"):
        failover.kill_leader(cluster, before, [one.text for one in orders])
    return cluster


def spark(target: Target) -> Image:
    """The image of the Spark jobs, and what it took: a Verification and a Rebalance need it."""
    images.build_base()  # of all images: it costs nothing more for this one
    began_s = time.monotonic()
    image = spark_image.build()
    target.load([image])
    minutes = (time.monotonic() - began_s) / 60
    console.print(
        f"of this, {minutes:.1f} minutes for the image of the Spark jobs "
        f"(it is {image.archive.stat().st_size / 1e6:.0f} MB, and kept)"
    )
    return image


@contextmanager
def part(title: str) -> Iterator[None]:
    """A titled step; what its parts raise becomes `Broken`, with the title."""
    console.print(f"\n[bold]{title}[/]")
    try:
        yield
    except UNEXPECTED as failed:
        raise Broken(
            expected=f"“{title}” to go well", found=reason(failed), remedy=AGAIN
        ) from failed
