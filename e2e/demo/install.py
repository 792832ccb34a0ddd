"""A step of the demo: install the two charts, and check that the pods match the releases."""

import json

import yaml
from rich.table import Table

from e2e.cluster.console import console, step
from e2e.cluster.helm import Helm
from e2e.cluster.layout import CHECKOUT
from e2e.demo.checking import LIMIT_S, check, until
from e2e.main import operator as of_operator
from e2e.main.broker_cluster import ORDERS, BrokerClusterUnderTest
from e2e.main.operator import Operator

RELEASE = "demo"
CHART = CHECKOUT / "charts" / "chiplog-cluster"
BROKERS = 3


def charts(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """Install both charts; returns when the operator runs and all brokers are Ready.

    The cluster is that of `examples/orders.yaml`, given as values of the chart.
    """
    with step(f"helm install {of_operator.RELEASE} charts/chiplog-operator"):
        end_interrupted(Helm(operator.kubeconfig, of_operator.NAMESPACE), of_operator.RELEASE)
        operator.install()
        operator.wait_whole(LIMIT_S)
    manifest, _ = yaml.safe_load_all(ORDERS.read_text())
    values = {"cluster": {"name": manifest["metadata"]["name"], "spec": manifest["spec"]}}
    with step(f"helm install {RELEASE} charts/chiplog-cluster, until {BROKERS} brokers serve"):
        helm = Helm(operator.kubeconfig, cluster.kubectl.namespace)
        end_interrupted(helm, RELEASE)
        helm.install(RELEASE, CHART, values=values)
        cluster.wait_cluster_ready(LIMIT_S)
        until(f"{BROKERS} brokers that run the current image", lambda: running(operator, cluster))


def end_interrupted(helm: Helm, release: str) -> None:
    """Undo an install or upgrade that was interrupted: helm refuses to continue a pending one."""
    found = json.loads(helm("list", "--pending", "--filter", f"^{release}$", "-o", "json"))
    for one in found:
        if one["status"] == "pending-install":
            helm("uninstall", release, "--wait")
        else:
            helm("rollback", release, "--wait")


def show(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """Print the two releases as helm lists them, and check the status and the brokers' pods."""
    table = Table("release", "namespace", "chart", "status")
    ours = {
        (of_operator.RELEASE, of_operator.NAMESPACE),
        (RELEASE, cluster.kubectl.namespace),
    }
    for one in json.loads(Helm(operator.kubeconfig, "default")("list", "-A", "-o", "json")):
        if (one["name"], one["namespace"]) in ours:
            table.add_row(one["name"], one["namespace"], one["chart"], one["status"])
            check(
                one["status"] == "deployed",
                expected=f"helm lists release {one['name']} with status deployed",
                found=f"status {one['status']}",
            )
    console.print(table)
    running(operator, cluster)
    zones = [f"{one['metadata']['name']} in {one['spec']['rack']}" for one in cluster.own("brk")]
    console.print(f"{BROKERS} brokers run the current image: {', '.join(zones)}")


def running(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """Raise `AssertionError` unless all brokers are Ready with the current image.

    Pods that are being deleted do not count.
    """
    image = operator.references["chiplog/broker"]
    ready = [
        pod["metadata"]["name"]
        for pod in cluster.pods()
        if all(one["ready"] for one in pod["status"].get("containerStatuses", ()))
        and pod["spec"]["containers"][0]["image"].endswith(image)
        and not pod["metadata"].get("deletionTimestamp")
    ]
    assert len(ready) == BROKERS, f"Ready pods with image {image}: {', '.join(ready) or 'none'}"
