"""NetworkPolicies are enforced: who is not named does not get through."""

from functools import partial

import pytest

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.reaching import reaches

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-a}
  terminationGracePeriodSeconds: 1
  containers:
    - name: server
      image: IMAGE
      command: [sh, -c, "python3 -m http.server -d /etc 9091 & exec python3 -m http.server 9092"]
      readinessProbe: {periodSeconds: 1, tcpSocket: {port: 9092}}
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {app: friend}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-a}
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE, command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app: stranger}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-b}
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE, command: [sleep, "3600"]}]
"""
POLICY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server}
spec:
  podSelector: {matchLabels: {app: server}}
  policyTypes: [Ingress]
  ingress:
    - ports: [{port: 9092}]
    - from: [{podSelector: {matchLabels: {app: friend}}}]
      ports: [{port: 9091}]
"""


@pytest.mark.usefixtures("faults")
def test_only_the_named_pod_reaches_the_internal_port(kubectl: Kubectl, base_image: str) -> None:
    kubectl.apply(PODS.replace("IMAGE", base_image))
    kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
    ip = kubectl.get("pod", "server")["status"]["podIP"]
    for pod in ("friend", "stranger"):
        eventually("open without a policy", partial(reaches, kubectl, pod, ip, 9091), 20)

    kubectl.apply(POLICY)
    eventually("a stranger is kept out", lambda: not reaches(kubectl, "stranger", ip, 9091))
    assert reaches(kubectl, "friend", ip, 9091)  # on the same node's bridge
    for pod in ("friend", "stranger"):
        assert reaches(kubectl, pod, ip, 9092)

    kubectl("delete", "networkpolicy", "server")
    eventually("open again", partial(reaches, kubectl, "stranger", ip, 9091))
