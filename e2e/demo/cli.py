"""The demo: all its steps in order, and its exit status."""

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
"""Errors of the functions that the demo shares with tests."""


def main() -> None:
    """Run the demo.

    Exit status 2 if the demo cannot run on this machine, 1 if a check fails, 130 if interrupted.
    In each case a message says what to do.
    """
    try:
        target = current_target()
        cluster = run(target)
    except Refused as refused:
        console.print(f"demo: {refused}", markup=False)
        sys.exit(2)
    except Broken as broken:
        console.print(f"demo: a check failed\n{broken}", markup=False, style="red")
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("demo: interrupted; the cluster still runs: `make cluster-down` stops it")
        sys.exit(130)
    console.print(next_steps.text(target, cluster), markup=False)


def run(target: Target) -> BrokerClusterUnderTest:
    """Run all steps in order; returns the cluster, which is left running."""
    with part("1. A Kubernetes cluster of three nodes, with the images loaded"):
        target.up(fresh=False)
        operator = Operator.on(target, also=(spark(target),))
        cluster = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE))

    with part("2. helm install: the operator, and a cluster of three brokers"):
        install.charts(operator, cluster)
        install.show(operator, cluster)

    with part("3. kubectl apply -f examples/orders.yaml: a topic with six partitions"):
        topic.apply(cluster)
        topic.show(cluster)

    with part("4. A first program with kafka-python: JSON records, read in order for each key"):
        before = topic.end_offsets(cluster.bootstrap)
        orders = first_program.produce(cluster.bootstrap)
        topic.check_texts(cluster.bootstrap, before, [one.text for one in orders])
        first_program.consume(cluster.bootstrap, before, orders)

    with part("5. On the volumes: Kafka's own segment files"):
        volumes.show(cluster)

    with part("6. A compacted topic: only the last price of each product is kept"):
        compaction.show(cluster)

    with part("7. The broker that leads a partition is killed while orders come in"):
        failover.kill_leader(cluster, before, [one.text for one in orders])
    return cluster


def spark(target: Target) -> Image:
    """Build and load the image of the Spark jobs, which a Verification and a Rebalance need.

    Prints how long it took.
    """
    images.build_base()  # not part of the printed time: all images need the base image
    began_s = time.monotonic()
    image = spark_image.build()
    target.load([image])
    minutes = (time.monotonic() - began_s) / 60
    console.print(
        f"the image of the Spark jobs took {minutes:.1f} minutes to build and load "
        f"({image.archive.stat().st_size / 1e6:.0f} MB; it is kept for the next run)"
    )
    return image


@contextmanager
def part(title: str) -> Iterator[None]:
    """Print the title of a step; an error within the step becomes `Broken`, with this title."""
    console.print(f"\n[bold]{title}[/]")
    try:
        yield
    except UNEXPECTED as failed:
        raise Broken(
            expected=f"step “{title}” without an error", found=reason(failed), remedy=AGAIN
        ) from failed
