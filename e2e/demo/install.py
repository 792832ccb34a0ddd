"""The two releases of the demo, and whether they are what helm says."""

import json

import yaml
from rich.table import Table

from e2e.cluster.console import console
from e2e.cluster.helm import Helm
from e2e.cluster.layout import CHECKOUT
from e2e.main.broker_cluster import ORDERS, BrokerClusterUnderTest
from e2e.main.operator import Operator

RELEASE = "demo"
CHART = CHECKOUT / "charts" / "chiplog-cluster"
BROKERS = 3


def charts(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """Install both charts, and return when the operator runs and all brokers are Ready.

    The cluster is that of the example, as values of the chart.
    """
    operator.install()
    operator.wait_whole()
    manifest, _ = yaml.safe_load_all(ORDERS.read_text())
    values = {"cluster": {"name": manifest["metadata"]["name"], "spec": manifest["spec"]}}
    Helm(operator.kubeconfig, cluster.kubectl.namespace).install(RELEASE, CHART, values=values)
    cluster.wait_cluster_ready(180)


def show(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """The releases by helm, held against the pods that the nodes run."""
    table = Table("release", "namespace", "chart", "status")
    for one in json.loads(Helm(operator.kubeconfig, "default")("list", "-A", "-o", "json")):
        table.add_row(one["name"], one["namespace"], one["chart"], one["status"])
        assert one["status"] == "deployed", one
    console.print(table)

    pods = cluster.kubectl.get("pods")["items"]
    running = [
        pod["metadata"]["name"]
        for pod in pods
        if all(one["ready"] for one in pod["status"]["containerStatuses"])
        and pod["spec"]["containers"][0]["image"].endswith(operator.references["chiplog/broker"])
    ]
    assert len(running) == BROKERS, f"brokers that run the image just built: {running}"
    zones = [f"{one['metadata']['name']} in {one['spec']['rack']}" for one in cluster.own("brk")]
    console.print(f"{BROKERS} brokers run the image just built: {', '.join(zones)}")
