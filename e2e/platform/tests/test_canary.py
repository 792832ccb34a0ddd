"""No secret of a running installation stands in anything that others may read."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from e2e import measured
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.main import operator as release
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.evidence import gather
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in, wait_for_metadata
from e2e.platform.canary import Canary, artefacts, of_secrets, of_tokens, running, search

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]

NAMESPACE = "e2e-canary"
PLANTED = "planted"


@pytest.fixture(scope="module")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    with cluster_in(target, NAMESPACE, example({})) as one:
        wait_for_metadata(one, "orders", 6)
        yield one


@pytest.fixture(scope="module")
def namespaces(cluster: BrokerClusterUnderTest) -> list[Kubectl]:
    """The cluster's and the operator's."""
    return [cluster.kubectl, Kubectl(cluster.kubectl.kubeconfig, release.NAMESPACE)]


@pytest.fixture(scope="module")
def canaries(namespaces: list[Kubectl]) -> list[Canary]:
    """All that is secret; each pod's token, and the password of the internal listener."""
    found = [
        canary
        for kubectl in namespaces
        for canary in (*of_secrets(kubectl), *of_tokens(kubectl, running(kubectl)))
    ]
    assert "Secret demo-internal, password" in {one.name for one in found}
    assert len([one for one in found if one.name.startswith("token of pod demo-broker-")]) == 3
    return found


def work(cluster: BrokerClusterUnderTest) -> None:
    """What makes brokers and operator log and write: records, and logins to a new process."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(100):
        producer.produce("orders", str(number).encode())
    assert producer.flush(30) == 0
    # A broker that was killed logs in to the others again, and they to it.
    pod = next(iter(cluster.broker_pods()))
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    cluster.wait_cluster_ready()


def test_no_secret_stands_in_what_others_may_read(
    cluster: BrokerClusterUnderTest, namespaces: list[Kubectl], canaries: list[Canary]
) -> None:
    work(cluster)
    shown = [one for kubectl in namespaces for one in artefacts(kubectl)]
    searched, found = search(canaries, [*shown, *gather(cluster.kubectl)])
    assert found == []
    texts = dict(shown)
    assert "kafka_server" in texts["pages of demo-broker-1-0"], "an empty page shows nothing"
    assert '"event"' in texts["log of pod/demo-broker-2-0 "]
    measured.note(f"{len(canaries)} secrets, {len(searched)} artefacts, none of them in any")


def test_the_search_sees_what_is_planted(
    cluster: BrokerClusterUnderTest, canaries: list[Canary]
) -> None:
    """Else the test above would be green whatever it read."""
    kubectl = cluster.kubectl
    (password,) = [one for one in canaries if one.name == "Secret demo-internal, password"]
    kubectl("create", "configmap", PLANTED, f"--from-literal=note=it is {password.value}")
    try:
        _, found = search([password], artefacts(kubectl))
    finally:
        kubectl("delete", "configmap", PLANTED)
    assert found == [f"{password.name} stands in configmaps of {NAMESPACE} (as it is)"]
