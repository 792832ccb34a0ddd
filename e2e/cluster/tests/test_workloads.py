"""The cluster does what a user of Kubernetes expects: workloads, Services, DNS, logs, exec."""

import urllib.request
from functools import partial

import pytest

from e2e.cluster import layout
from e2e.cluster.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

STATEFULSET = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {app: web}
  ports: [{port: 8000}]
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8000}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: web}}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: web
          image: IMAGE
          imagePullPolicy: IfNotPresent
          command: [sh, -c, 'echo "$HOSTNAME" > /data/name; exec python3 -m http.server -d /data']
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          readinessProbe: {periodSeconds: 1, httpGet: {path: /name, port: 8000}}
          volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 64Mi}}
"""

FETCH = "import urllib.request as u; print(u.urlopen('http://%s/name', timeout=3).read().decode())"


def fetched(kubectl: Kubectl, pod: str, host: str, expected: set[str]) -> bool:
    """Whether a GET made inside `pod` is answered by one of the expected pods."""
    return kubectl.execute(pod, "python3", "-c", FETCH % host).strip() in expected


def read(url: str, expected: set[str]) -> bool:
    """Whether a GET made by the machine itself is answered by one of the expected pods."""
    with urllib.request.urlopen(url, timeout=3) as answer:
        return answer.read().decode().strip() in expected


def test_statefulset_service_nodeport_and_dns(kubectl: Kubectl, base_image: str) -> None:
    kubectl.apply(STATEFULSET.replace("IMAGE", base_image))
    kubectl("rollout", "status", "statefulset/web", "--timeout=60s")

    pods = [f"web-{index}" for index in range(3)]
    zones = {kubectl.get("pod", pod)["spec"]["nodeName"] for pod in pods}
    assert zones == {node.name for node in layout.NODES}

    # Logs and exec work on every node, DNS names and the Service from inside.
    for pod, other in zip(pods, [*pods[1:], pods[0]], strict=True):
        assert "/name HTTP" in kubectl("logs", pod)  # the readiness probe's requests
        assert kubectl.execute(pod, "cat", "/data/name").strip() == pod
        name = f"{other}.web.{kubectl.namespace}.svc.cluster.local:8000"
        eventually(f"{name} answers {pod}", partial(fetched, kubectl, pod, name, {other}), 20)
    eventually("the Service answers", partial(fetched, kubectl, pods[0], "front", set(pods)), 20)

    # And from outside: a NodePort on loopback and on each node's address.
    port = kubectl.get("service", "front")["spec"]["ports"][0]["nodePort"]
    for ip in ("127.0.0.1", *(node.ip for node in layout.NODES)):
        url = f"http://{ip}:{port}/name"
        eventually(f"{url} answers", partial(read, url, set(pods)), 20)
