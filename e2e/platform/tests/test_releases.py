"""The three charts from nothing to an uninstall, and installed again: records outlive it all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
import yaml

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets, stored
from e2e.cluster import images, layout, node
from e2e.cluster.helm import Helm
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest, Life, example
from e2e.main.operator import NAMESPACE as OPERATORS
from e2e.main.operator import RELEASE, Operator
from e2e.main.replicas import wait_in_sync, wait_preferred
from e2e.main.setting_up import RESTRICTED, take_down, wait_for_metadata
from e2e.main.traffic import Traffic
from e2e.platform import monitoring_kinds
from e2e.platform.releases import Release

# The definitions are taken away, and with them whatever others have made.
RUNS_LAST = True
pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

NAMESPACE = "e2e-releases"
TOPIC, PREFIX, PARTITIONS = "shop.orders", "shop.", 3
ROLL_LIMIT_S = 300
RECORDS = [Record(b"%03d" % number, b"key") for number in range(100)]
SAFE = {"min.insync.replicas": 2}


@dataclass(frozen=True, slots=True)
class Releases:
    """Of the three charts."""

    operator: Release
    cluster: Release
    monitoring: Release


@pytest.fixture
def releases(target: Target, operator: Operator) -> Iterator[Releases]:
    """Names for them, on a Kubernetes that has never had Chiplog; restored afterwards."""
    system, namespace = Helm(target.kubeconfig, OPERATORS), Helm(target.kubeconfig, NAMESPACE)
    kubectl = Kubectl(target.kubeconfig, NAMESPACE)
    # While the operator runs: it removes the finalizers of deleted Topics.
    remove_definitions(kubectl)
    operator.uninstall()
    monitoring_kinds.install(kubectl)
    kubectl.recreate_namespace()
    kubectl("label", "namespace", NAMESPACE, RESTRICTED)
    try:
        with evidence.printed(kubectl):
            yield Releases(
                Release(system, RELEASE, "chiplog-operator"),
                Release(namespace, "demo", "chiplog-cluster"),
                Release(system, "monitoring", "chiplog-monitoring"),
            )
    finally:
        Release(system, "monitoring", "chiplog-monitoring").uninstall()
        monitoring_kinds.remove(kubectl)
        operator.install()
        operator.wait_whole()
        take_down(BrokerClusterUnderTest(kubectl))


def remove_definitions(kubectl: Kubectl) -> None:
    if found := definitions(kubectl):
        kubectl("delete", "crd", *found, "--timeout=90s")


def definitions(kubectl: Kubectl) -> dict[str, str]:
    """Uid of each of ours, by name."""
    return {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in kubectl.get("crd")["items"]
        if one["spec"]["group"] == "chiplog.dev"
    }


def operator_values(references: Mapping[str, str], level: str) -> dict[str, object]:
    return {
        "image": {"reference": references["chiplog/operator"]},
        "brokerImage": {"reference": references["chiplog/broker"]},
        "logLevel": level,
        "watchAllNamespaces": True,
    }


def cluster_values(retention_ms: int) -> dict[str, object]:
    """The first example, as values."""
    cluster, _ = yaml.safe_load_all(example({}))
    config = {**SAFE, "retention.ms": retention_ms}
    return {
        "cluster": {"name": "demo", "spec": cluster["spec"]},
        "topicPrefix": PREFIX,
        "topics": [
            {
                "name": "orders",
                "spec": {"partitions": PARTITIONS, "replicas": 3, "config": config},
            }
        ],
        "consumerGroups": [{"name": "readers", "spec": {"maxLag": {"records": 1000}}}],
    }


def helm_test_image(image: str) -> dict[str, object]:
    """The image of `helm test`."""
    return {"test": {"image": {"reference": image}}}


def check_by_helm(releases: Releases) -> None:
    """`helm test` of each chart finds all in order, and leaves no rights behind."""
    for one in (releases.operator, releases.cluster, releases.monitoring):
        one.test()
        kubectl = Kubectl(one.helm.kubeconfig, one.helm.namespace)
        left = kubectl(
            *("get", "serviceaccounts,roles,rolebindings,clusterroles", "-o", "name"),
            "--selector=app.kubernetes.io/name in "
            "(chiplog-operator-test, chiplog-test, chiplog-monitoring-test)",
        )
        assert left == ""


def under_another_name(image: images.Image) -> str:
    """Give the image a second name; the reference of that."""
    other = images.Image(image.name, f"{image.tag}-next")
    for one in layout.NODES:
        names = (f"docker.io/{image.reference}", f"docker.io/{other.reference}")
        node.ctr(one, "images", "tag", "--force", *names)
    return other.reference


def wait_rolled(cluster: BrokerClusterUnderTest, image: str) -> None:
    """Until every broker runs this image, and the cluster is whole."""

    def rolled() -> bool:
        pods = cluster.pods()
        found = {pod["spec"]["containers"][0]["image"] for pod in pods}
        assert (len(pods), found) == (3, {image}), found
        return True

    eventually(f"all brokers run {image}", rolled, ROLL_LIMIT_S, every_s=1)
    cluster.wait_cluster_ready()
    wait_in_sync(cluster)


def retention_ms(cluster: BrokerClusterUnderTest) -> str:
    """The topic's `retention.ms` as brokers have it."""
    return str(cluster.map_of(TOPIC)["spec"]["config"].get("retention.ms"))


@pytest.mark.usefixtures("faults")  # it names images in the nodes' own stores
def test_installed_upgraded_rolled_back_uninstalled_and_adopted(
    target: Target, operator: Operator, releases: Releases
) -> None:
    cluster = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE))
    first = operator.references
    releases.operator.install(operator_values(first, "info"))
    releases.cluster.install({**cluster_values(3_600_000), **helm_test_image(first["chiplog/cli"])})
    releases.monitoring.install(helm_test_image(first["chiplog/operator"]))
    cluster.wait_cluster_ready()
    wait_for_metadata(cluster, TOPIC, PARTITIONS)
    check_by_helm(releases)
    Librdkafka().produce(cluster.bootstrap, TOPIC, RECORDS)
    wait_in_sync(cluster)
    before, kept = definitions(cluster.kubectl), cluster.uids("pvc")
    assert len(before) >= 7
    assert len(kept) == 3

    upgraded_and_rolled_back(cluster, releases, operator)
    assert definitions(cluster.kubectl) == before

    # Else the next operator would find leaders to move, as it should.
    wait_preferred(cluster)
    records, pods = stored(cluster.bootstrap, TOPIC, range(PARTITIONS)), cluster.broker_pods()
    assert sum(map(len, records)) > len(RECORDS)
    releases.operator.uninstall()
    eventually("no operator runs", lambda: not operator.pods(), 60)
    check_unchanged(cluster, pods, kept)
    assert definitions(cluster.kubectl) == before

    epochs = cluster.epochs()
    releases.operator.install(operator_values(first, "info"))
    operator.wait_whole()
    # It acts on a change, so it manages the existing cluster.
    releases.cluster.install(cluster_values(7_200_000))
    eventually("a change is carried out", lambda: retention_ms(cluster) == "7200000", 60)
    cluster.wait_cluster_ready()
    check_unchanged(cluster, pods, kept)
    assert cluster.epochs() == epochs, "nothing moved"
    now = stored(cluster.bootstrap, TOPIC, range(PARTITIONS))
    assert all(new[: len(old)] == old for old, new in zip(records, now, strict=True))


def upgraded_and_rolled_back(
    cluster: BrokerClusterUnderTest, releases: Releases, operator: Operator
) -> None:
    """Upgrade to other images and values and roll back, under load: no record is lost."""
    first = operator.references
    by_name = {image.name: image for image in images.built()}
    second = {name: under_another_name(by_name[name]) for name in first}
    with Traffic(cluster.bootstrap, TOPIC, PARTITIONS, delivery_limit_ms=60_000) as traffic:
        releases.operator.install(operator_values(second, "debug"))
        wait_rolled(cluster, second["chiplog/broker"])
        releases.cluster.install(cluster_values(86_400_000))
        eventually("retention is another one", lambda: retention_ms(cluster) == "86400000", 60)
        releases.operator.rollback(1)
        releases.cluster.rollback(1)
        wait_rolled(cluster, first["chiplog/broker"])
        eventually("retention is the first one", lambda: retention_ms(cluster) == "3600000", 60)
    noticed = traffic.noticed
    gaps = ", ".join(f"{one:.1f}" for one in noticed.longest_gaps_s().values())
    measured.note(
        f"helm upgrade and rollback, each of which restarts all brokers: {traffic.sent} records "
        f"sent, {len(noticed.errors)} refused, longest gaps per partition {gaps} s"
    )
    assert not noticed.errors, noticed.errors[:5]
    assert len(noticed.acknowledged) == traffic.sent
    levels = {
        argument
        for pod in operator.pods()
        for argument in pod["spec"]["containers"][0]["args"]
        if argument.startswith("--log-level")
    }
    assert levels == {"--log-level=info"}


def check_unchanged(
    cluster: BrokerClusterUnderTest, pods: dict[str, Life], kept: dict[str, str]
) -> None:
    """Check that the same processes on the same volumes still accept and serve records."""
    assert cluster.broker_pods() == pods
    assert cluster.uids("pvc") == kept
    before = sum(end_offsets(cluster.bootstrap, TOPIC, range(PARTITIONS)))
    Librdkafka().produce(cluster.bootstrap, TOPIC, RECORDS)
    after = sum(end_offsets(cluster.bootstrap, TOPIC, range(PARTITIONS)))
    assert after == before + len(RECORDS)
