"""The two releases of the demo, and whether they are what helm says."""

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
    """Install both charts, and return when the operator runs and all brokers are Ready.

    The cluster is that of the example, as values of the chart.
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
        until(
            f"{BROKERS} brokers that run the image just built", lambda: running(operator, cluster)
        )


def end_interrupted(helm: Helm, release: str) -> None:
    """Take back what helm had begun when a demo was interrupted: it refuses to go on with that."""
    found = json.loads(helm("list", "--pending", "--filter", f"^{release}$", "-o", "json"))
    for one in found:
        if one["status"] == "pending-install":
            helm("uninstall", release, "--wait")
        else:
            helm("rollback", release, "--wait")


def show(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """The two releases by helm, held against the pods that the nodes run."""
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
                expected=f"helm says that release {one['name']} is deployed",
                found=one["status"],
            )
    console.print(table)
    running(operator, cluster)
    zones = [f"{one['metadata']['name']} in {one['spec']['rack']}" for one in cluster.own("brk")]
    console.print(f"{BROKERS} brokers run the image just built: {', '.join(zones)}")


def running(operator: Operator, cluster: BrokerClusterUnderTest) -> None:
    """Raises `AssertionError` while a broker does not, or still runs an image from before."""
    image = operator.references["chiplog/broker"]
    ready = [
        pod["metadata"]["name"]
        for pod in cluster.pods()
        if all(one["ready"] for one in pod["status"].get("containerStatuses", ()))
        and pod["spec"]["containers"][0]["image"].endswith(image)
        and not pod["metadata"].get("deletionTimestamp")
    ]
    assert len(ready) == BROKERS, f"ready with {image}: {', '.join(ready) or 'none'}"
