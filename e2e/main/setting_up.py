"""A cluster and its topics, as fixtures make them: applied, Ready, and known to clients."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import told

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
TOPIC_LIMIT_S = 60
TOLD_LIMIT_S = 30
PODS_LIMIT_S = 60


@contextmanager
def cluster_in(
    target: Target, namespace: str, manifests: str, name: str = "demo"
) -> Iterator[BrokerClusterUnderTest]:
    """A BrokerCluster that is Ready, in a namespace that admits restricted pods only.

    What was found where that failed is printed. The namespace is gone afterwards.
    """
    kubectl = Kubectl(target.kubeconfig, namespace)
    kubectl.recreate_namespace()
    kubectl("label", "namespace", namespace, RESTRICTED)
    one = BrokerClusterUnderTest(kubectl, name)
    with evidence.printed(kubectl):
        kubectl.apply(manifests)
        measured.note(f"{namespace}: cluster Ready after {one.wait_cluster_ready():.1f} s")
    yield one
    take_down(one)


def take_down(one: BrokerClusterUnderTest) -> None:
    """Delete the cluster, then its namespace: of one with pods in it Kubernetes looks after them
    first, and again only when all the time is over that they have to end."""
    one.kubectl("delete", "cbc", one.name, "--ignore-not-found", "--wait=false")

    def no_pod_is_left() -> bool:
        left = one.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
        assert "deleted" not in left, left
        return True

    eventually("no pod is left", no_pod_is_left, PODS_LIMIT_S, every_s=1)
    one.kubectl.delete_namespace()


def make_topic(
    cluster: BrokerClusterUnderTest, name: str, partitions: int = 1, **spec: object
) -> str:
    """Applies a Topic; returns what clients call it, when they can use it."""
    manifest = topic_manifest(name, partitions, cluster.name, **spec)
    cluster.kubectl.apply(json.dumps(manifest))
    cluster.wait_ready("ct", name, TOPIC_LIMIT_S)
    topic = str(spec.get("topicName", name))
    wait_told(cluster, topic, partitions)
    return topic


def wait_told(cluster: BrokerClusterUnderTest, topic: str, partitions: int) -> None:
    """Until clients are told of every partition of a topic, with a leader."""
    bootstrap = cluster.bootstrap
    eventually(
        f"clients are told of {topic}",
        lambda: told(bootstrap).is_whole(topic, partitions),
        TOLD_LIMIT_S,
    )
