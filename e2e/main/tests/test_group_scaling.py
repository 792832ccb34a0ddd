"""`spec.scale` of a ConsumerGroup: pods follow the lag, and never outnumber the partitions."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.consumer_groups import GroupUnderTest, produce
from e2e.main.operator import Operator
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(420)]

PARTITIONS = 3
LAG_PER_REPLICA = 1_000
COOLDOWN_S = 20
UP_LIMIT_S, DOWN_LIMIT_S = 60, 120
NAME = "scaled-readers"

# Reads slowly, so that there is a lag to scale by, and for as long as the pod is there.
READER = """
import signal, sys, time
from confluent_kafka import Consumer
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 1000,
})
consumer.subscribe([topic])
try:
    while True:
        consumer.consume(100, timeout=0.5)
        time.sleep(0.5)
finally:
    consumer.close()
"""


def inside(cluster: BrokerClusterUnderTest) -> str:
    """The bootstrap address for clients in pods, from the status."""
    listeners = cluster.kubectl.get("cbc", cluster.name)["status"]["listeners"]
    (found,) = [one["bootstrapServers"] for one in listeners if one["name"] == "plain"]
    return str(found)


def deployment(image: str, bootstrap: str, topic: str) -> dict[str, Any]:
    """Consumers within the restricted Pod Security Standard. It names no number of pods: applied
    again it must not undo what the operator did."""
    labels = {"app": NAME}
    container = {
        "name": "reader",
        "image": image,
        "command": ["python3", "-c", READER, bootstrap, NAME, topic],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "annotations": {"chiplog.dev/scaled-by": NAME}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                },
            },
        },
    }


class Replicas:
    """What the Deployment's spec said, polled again and again."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.seen: list[int] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        while not self.ending.wait(1):
            self.now()

    def now(self) -> int:
        replicas = int(self.kubectl.get("deployment", NAME)["spec"]["replicas"])
        if not self.seen or self.seen[-1] != replicas:
            self.seen.append(replicas)
        return replicas


@pytest.fixture
def group(cluster: BrokerClusterUnderTest) -> Iterator[GroupUnderTest]:
    one = GroupUnderTest(cluster.kubectl, cluster.name, NAME)
    yield one
    one.delete()
    cluster.kubectl("delete", "hpa", NAME, "--ignore-not-found")
    cluster.kubectl("delete", "deployment", NAME, "--ignore-not-found", "--wait", timeout_s=60)


def test_from_one_to_as_many_as_there_are_partitions_and_back(
    cluster: BrokerClusterUnderTest,
    operator: Operator,
    new_topic: NewTopic,
    group: GroupUnderTest,
) -> None:
    topic = new_topic("scaled", PARTITIONS, replicas=3)
    image = operator.references["chiplog/cli"]
    scale = {
        "deploymentRef": {"name": NAME},
        "min": 1,
        "max": 10,
        "lagPerReplica": LAG_PER_REPLICA,
        "cooldown": f"{COOLDOWN_S}s",
    }
    group.apply(scale=scale)
    eventually(
        "the missing Deployment is told of",
        lambda: group.condition("Scaled")[:2] == ("False", "DeploymentNotFound"),
        20,
    )
    manifest = json.dumps(deployment(image, inside(cluster), topic))
    cluster.kubectl.apply(manifest)
    cluster.kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=90s")
    eventually("it is one pod's work", lambda: group.condition("Scaled")[0] == "True", 60)
    replicas = Replicas(cluster.kubectl)
    assert replicas.now() == 1
    replicas.thread.start()
    try:
        began_s = time.monotonic()
        # Far more than all of them are good for: max would be 10 pods.
        produce(cluster.bootstrap, topic, PARTITIONS, 5_000)
        eventually("as many pods as partitions", lambda: replicas.now() == PARTITIONS, UP_LIMIT_S)
        up_s = time.monotonic() - began_s
        cluster.kubectl.apply(manifest)
        eventually("the lag is gone", lambda: group.status().get("totalLag") == 0, 180)
        gone_s = time.monotonic()
        eventually("one pod again", lambda: replicas.now() == 1, DOWN_LIMIT_S)
        down_s = time.monotonic() - gone_s
    finally:
        replicas.ending.set()
        replicas.thread.join()
    measured.note(
        f"scaling by lag: {PARTITIONS} pods {up_s:.1f} s after the first record, 1 pod "
        f"{down_s:.1f} s after the lag was gone (cool-down {COOLDOWN_S} s); seen {replicas.seen}"
    )
    assert max(replicas.seen) == PARTITIONS, "never more than there are partitions"
    assert replicas.seen[0] == replicas.seen[-1] == 1


def test_what_an_autoscaler_scales_is_left_alone(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic, group: GroupUnderTest
) -> None:
    topic = new_topic("autoscaled", PARTITIONS, replicas=3)
    image = operator.references["chiplog/cli"]
    cluster.kubectl.apply(json.dumps(deployment(image, inside(cluster), topic)))
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 1,
            "maxReplicas": 2,
        },
    }
    cluster.kubectl.apply(json.dumps(autoscaler))
    produce(cluster.bootstrap, topic, PARTITIONS, 2_000)
    group.apply(
        scale={
            "deploymentRef": {"name": NAME},
            "min": 3,
            "max": 10,
            "lagPerReplica": LAG_PER_REPLICA,
        }
    )

    def is_reported() -> bool:
        status, reason, message = group.condition("Scaled")
        assert (status, reason) == ("False", "ScaledByAnother"), message
        assert f"HorizontalPodAutoscaler {NAME}" in message
        return True

    eventually("the autoscaler is reported", is_reported, 30)
    time.sleep(10)
    assert int(cluster.kubectl.get("deployment", NAME)["spec"]["replicas"]) <= 2
    # Once it is gone the group has its Deployment.
    cluster.kubectl("delete", "hpa", NAME)
    eventually(
        "three pods",
        lambda: int(cluster.kubectl.get("deployment", NAME)["spec"]["replicas"]) == 3,
        60,
    )
