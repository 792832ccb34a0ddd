"""Who reaches which port of a broker, on a network that enforces the operator's NetworkPolicy."""

from collections.abc import Iterator
from functools import partial

import pytest

from chiplog_core.naming import names, ports
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.reaching import reaches
from e2e.cluster.target import Target
from e2e.main import operator as release
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]

STRANGER = "stranger"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app.kubernetes.io/name: chiplog-operator}}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: main
      image: IMAGE
      command: [sleep, "3600"]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""
"""In the brokers' own namespace, and named like the operator: it is still a stranger."""


@pytest.fixture(scope="module")
def cluster(
    target: Target, operator: Operator, base_image: str
) -> Iterator[BrokerClusterUnderTest]:
    with cluster_in(target, "e2e-broker-ports", example({})) as one:
        one.kubectl.apply(POD.replace("IMAGE", base_image))
        one.kubectl("wait", "pod", STRANGER, "--for=condition=Ready", "--timeout=60s")
        yield one


@pytest.mark.usefixtures("faults")
def test_each_port_is_open_to_whom_it_is_for(
    cluster: BrokerClusterUnderTest, operator: Operator
) -> None:
    kubectl, system = cluster.kubectl, Kubectl(cluster.kubectl.kubeconfig, release.NAMESPACE)
    address = kubectl.get("pod", "demo-broker-1-0")["status"]["podIP"]
    leader = operator.leader()["metadata"]["name"]

    def shut(port: int) -> bool:
        return not reaches(kubectl, STRANGER, address, port)

    for port in (ports.INTERNAL, ports.HEALTH):
        eventually(f"{port} is closed to a stranger", partial(shut, port), 30)
    for port in (ports.PLAIN, ports.METRICS):
        assert reaches(kubectl, STRANGER, address, port), port
    assert reaches(system, leader, address, ports.HEALTH)
    assert not reaches(system, leader, address, ports.INTERNAL), "the operator has no use for it"
    assert reaches(kubectl, "demo-broker-2-0", address, ports.INTERNAL)
    assert not reaches(kubectl, "demo-broker-2-0", address, ports.HEALTH)


@pytest.mark.usefixtures("faults")
def test_turned_off_it_goes_and_comes_back(cluster: BrokerClusterUnderTest) -> None:
    kubectl, name = cluster.kubectl, names.network_policy(cluster.name)

    def switch(on: str) -> None:
        patch = f'{{"spec":{{"networkPolicy":{{"enabled":{on}}}}}}}'
        kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", patch)

    def is_there() -> bool:
        return bool(kubectl("get", "networkpolicy", name, "--ignore-not-found", "-o", "name"))

    before = cluster.broker_pods()
    switch("false")
    eventually("the policy is gone", lambda: not is_there(), 60)
    switch("true")
    eventually("the policy is back", is_there, 60)
    assert cluster.broker_pods() == before, "no broker was restarted for it"
