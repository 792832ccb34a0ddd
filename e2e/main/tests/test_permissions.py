"""A broker may write its own status and Lease, and nothing else; the documents say the same."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import TypeAlias

import pytest

from e2e.cluster.kubectl import Kubectl
from e2e.main import operator as release
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator

pytestmark = [pytest.mark.main, pytest.mark.timeout(120)]

OWN = "/apis/chiplog.dev/v1alpha1/namespaces/{namespace}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
# Run in a broker's pod: what an attacker who takes it over has at hand, and nothing else.
REQUEST = """
import json, ssl, sys, urllib.error, urllib.request
method, path, body = sys.argv[1:]
mount = "/var/run/secrets/kubernetes.io/serviceaccount"
headers = {
    "Authorization": "Bearer " + open(f"{mount}/token").read(),
    "Content-Type": "application/json" if method == "POST" else "application/merge-patch+json",
}
request = urllib.request.Request(
    f"https://kubernetes.default.svc{path}", body.encode() or None, headers, method=method
)
context = ssl.create_default_context(cafile=f"{mount}/ca.crt")
try:
    print(urllib.request.urlopen(request, timeout=10, context=context).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
TOPIC = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "Topic",
    "metadata": {"name": "made-by-a-broker"},
    "spec": {"clusterRef": {"name": "demo"}, "partitions": 1, "replicas": 1},
}
STATUS = {"status": {"version": "9.9.9"}}
LEASE = {"spec": {"leaseDurationSeconds": 6}}

OK, FORBIDDEN = 200, 403
HEADS = {("Resource.API group", "Objects"), ("---.---", "---")}
# Resource and names of objects, empty for all -> verbs.
Rights: TypeAlias = dict[tuple[str, str], set[str]]


def rights(kubectl: Kubectl, account: str, namespace: str) -> Rights:
    """What a ServiceAccount may do in a namespace, without what every account may do."""
    listing = ("auth", "can-i", "--list", f"--namespace={namespace}")
    header, *lines = kubectl(f"--as=system:serviceaccount:{account}", *listing).splitlines()
    urls, names, verbs = (header.index(one) for one in ("Non-Resource", "Resource Na", "Verbs"))
    found: Rights = defaultdict(set)
    for line in lines:
        resource = line[:urls].strip()
        if resource and not resource.startswith("selfsubject"):
            objects = line[names:verbs].strip().strip("[]")
            found[resource, objects] |= set(line[verbs:].strip().strip("[]").split())
    return dict(found)


def status_of(
    cluster: BrokerClusterUnderTest, method: str, path: str, body: object | None = None
) -> int:
    """What the API server answers to broker 1, asked from its pod with its own token.

    Nothing is changed, whether it is allowed or not: every write is a dry run.
    """
    where = path.format(namespace=cluster.kubectl.namespace)
    dry_run = "" if method == "GET" else "?dryRun=All"
    text = "" if body is None else json.dumps(body)
    pod = f"{cluster.name}-broker-1-0"
    command = ("python3", "-c", REQUEST, method, f"{where}{dry_run}", text)
    return int(cluster.kubectl.execute(pod, *command))


def test_a_broker_writes_its_own_status_and_lease(cluster: BrokerClusterUnderTest) -> None:
    own = f"{cluster.name}-1"
    assert status_of(cluster, "PATCH", f"{OWN}/brokers/{own}/status", STATUS) == OK
    assert status_of(cluster, "PATCH", f"{LEASES}/{own}", LEASE) == OK
    assert status_of(cluster, "GET", f"{OWN}/partitionmaps") == OK


def test_a_broker_writes_nothing_else(cluster: BrokerClusterUnderTest) -> None:
    own, other = f"{cluster.name}-1", f"{cluster.name}-2"
    orders = f"{OWN}/partitionmaps/{cluster.name}.orders"
    pods = "/api/v1/namespaces/{namespace}/pods"
    refused: tuple[tuple[str, str, object], ...] = (
        ("PATCH", f"{OWN}/brokers/{other}/status", STATUS),
        ("PATCH", f"{LEASES}/{other}", LEASE),
        ("PATCH", f"{OWN}/brokers/{own}", {"spec": {"fenced": False}}),
        ("DELETE", f"{OWN}/brokers/{own}", None),
        ("POST", f"{OWN}/topics", TOPIC),
        ("PATCH", f"{OWN}/topics/orders", {"spec": {"partitions": 9}}),
        ("DELETE", f"{OWN}/topics/orders", None),
        ("PATCH", orders, {"spec": {"minISR": 1}}),
        ("DELETE", orders, None),
        ("PATCH", f"{OWN}/brokerclusters/{cluster.name}", {"spec": {"replicas": 1}}),
        ("GET", f"{OWN}/topics", None),
        ("GET", "/api/v1/namespaces/{namespace}/secrets", None),
        ("DELETE", f"{pods}/{cluster.name}-broker-2-0", None),
    )
    answers = {
        (method, path): status_of(cluster, method, path, body) for method, path, body in refused
    }
    assert set(answers.values()) == {FORBIDDEN}, answers


def test_what_a_broker_may_do_is_what_the_table_says(
    cluster: BrokerClusterUnderTest, checkout: Path
) -> None:
    namespace = cluster.kubectl.namespace
    names = {"<cluster>": cluster.name, "<cluster>-<id>": f"{cluster.name}-1"}
    documented = dict(tables(checkout, "A broker"))
    # Only if a listener asks for passwords, which none of this cluster does.
    assert documented.pop(("secrets", "<cluster>-scram-credentials")) == {"get"}
    assert rights(cluster.kubectl, f"{namespace}:{cluster.name}-broker-1", namespace) == {
        (resource, names.get(objects, objects)): verbs
        for (resource, objects), verbs in documented.items()
    }


def test_what_the_operator_may_do_is_what_the_tables_say(
    cluster: BrokerClusterUnderTest, operator: Operator, checkout: Path
) -> None:
    (name,) = {pod["spec"]["serviceAccountName"] for pod in operator.pods()}
    account = f"{release.NAMESPACE}:{name}"
    anywhere = ("In every watched namespace", "For the whole cluster")
    documented = tables(checkout, *anywhere)
    assert rights(cluster.kubectl, account, cluster.kubectl.namespace) == documented
    own = tables(checkout, *anywhere, "In its own namespace")
    assert rights(cluster.kubectl, account, release.NAMESPACE) == own


def tables(checkout: Path, *headings: str) -> Rights:
    """The tables under some headings of docs/permissions.md, as one."""
    text = (checkout / "docs" / "permissions.md").read_text()
    sections = re.split(r"^#+ ", text, flags=re.MULTILINE)
    chosen = [one for one in sections if one.partition("\n")[0] in headings]
    assert len(chosen) == len(headings), headings
    found: Rights = defaultdict(set)
    for line in "\n".join(chosen).splitlines():
        if line.startswith("|"):
            group, resource, objects, verbs, *_ = (
                cell.strip().replace("`", "") for cell in line.strip("|").split("|")
            )
            where = (named(resource, group), "" if objects == "all" else objects)
            found[where] |= set(verbs.split(", "))
    return {where: verbs for where, verbs in found.items() if where not in HEADS}


def named(resource: str, group: str) -> str:
    """`brokers/status` of `chiplog.dev`, as kubectl names it."""
    plural, slash, part = resource.partition("/")
    return plural + ("" if group == "core" else f".{group}") + slash + part
