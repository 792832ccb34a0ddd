"""Creates clusters and topics for fixtures, and waits until clients can use them."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target
from e2e.main import evidence, shared
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.operator import Operator
from e2e.main.shared import Remedy, Shared

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
TOPIC_LIMIT_S = 60
METADATA_LIMIT_S = 30


@contextmanager
def cluster_in(
    target: Target,
    namespace: str,
    manifests: str,
    name: str = "demo",
    *,
    operator: Operator | None = None,
    settled: Callable[[BrokerClusterUnderTest], None] = lambda _: None,
) -> Iterator[BrokerClusterUnderTest]:
    """A Ready BrokerCluster while the block runs, in a namespace that admits restricted pods only.

    `settled` can wait for more than Ready. A cluster that a test leaves broken is repaired, after
    the `operator`, if given, was installed again. The namespace is deleted after the block.
    """
    one = BrokerClusterUnderTest(Kubectl(target.kubeconfig, namespace), name)

    def set_up() -> None:
        kubectl = restricted_namespace(one)
        with evidence.printed(kubectl):
            kubectl.apply(manifests)
            measured.note(f"{namespace}: cluster Ready after {one.wait_cluster_ready():.1f} s")
            settled(one)

    set_up()
    with kept_whole(one, set_up, operator):
        yield one
    take_down(one)


def restricted_namespace(one: BrokerClusterUnderTest) -> Kubectl:
    """Create the cluster's namespace again, empty, admitting restricted pods only."""
    one.kubectl.recreate_namespace()
    one.kubectl("label", "namespace", one.kubectl.namespace, RESTRICTED)
    return one.kubectl


def kept_whole(
    one: BrokerClusterUnderTest, set_up: Callable[[], None], operator: Operator | None
) -> AbstractContextManager[None]:
    """While the block runs, a cluster that a test leaves broken is repaired.

    If that fails, it is deleted and created again by `set_up`.
    """

    def repair() -> None:
        if operator is not None:
            operator.install()
            operator.wait_whole()
        shared.repair(one)

    def replace() -> None:
        take_down(one)
        set_up()

    return shared.shared(
        Shared(
            name=f"{one.kubectl.namespace}/{one.name}",
            wait_whole=partial(shared.wait_whole, one),
            remedies=(
                Remedy("repaired", repair, shared.REPAIR_LIMIT_S),
                Remedy("replaced", replace, shared.REPLACE_LIMIT_S),
            ),
        )
    )


def take_down(one: BrokerClusterUnderTest) -> None:
    """Delete the cluster, then its namespace.

    In a namespace that is being deleted the operator could not create objects, and would report
    errors.
    """
    one.kubectl("delete", "cbc", one.name, "--ignore-not-found", "--wait=false")
    one.kubectl.delete_namespace()


def make_topic(
    cluster: BrokerClusterUnderTest, name: str, partitions: int = 1, **spec: object
) -> str:
    """Apply a Topic, and wait until clients can use it; returns its name for clients."""
    manifest = topic_manifest(name, partitions, cluster.name, **spec)
    cluster.kubectl.apply(json.dumps(manifest))
    cluster.wait_ready("ct", name, TOPIC_LIMIT_S)
    topic = str(spec.get("topicName", name))
    wait_for_metadata(cluster, topic, partitions)
    return topic


class NewTopic(Protocol):
    """Applies a Topic, and waits until clients can use it; returns its name for clients."""

    def __call__(self, name: str, partitions: int = 1, **spec: object) -> str: ...


@contextmanager
def new_topics(cluster: BrokerClusterUnderTest) -> Iterator[NewTopic]:
    """Creates topics, which are deleted after the test."""
    made: list[str] = []

    def apply(name: str, partitions: int = 1, **spec: object) -> str:
        made.append(name)
        return make_topic(cluster, name, partitions, **spec)

    yield apply
    if made:
        cluster.kubectl("delete", "ct", *made, "--ignore-not-found", "--wait=false")


def wait_for_metadata(cluster: BrokerClusterUnderTest, topic: str, partitions: int) -> None:
    """Wait until clients' metadata has every partition of the topic with a leader."""
    bootstrap = cluster.bootstrap
    eventually(
        f"the metadata of clients has all partitions of {topic} with leaders",
        lambda: client_metadata(bootstrap).is_whole(topic, partitions),
        METADATA_LIMIT_S,
    )
