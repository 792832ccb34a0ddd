"""A node dies at once, is noticed, and comes back with its data."""

from functools import partial

import pytest

from e2e.cluster import cluster, layout, node, processes
from e2e.cluster.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

WRITER = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: writer}
spec:
  serviceName: writer
  selector: {matchLabels: {app: writer}}
  template:
    metadata: {labels: {app: writer}}
    spec:
      nodeSelector: {kubernetes.io/hostname: node-b}
      terminationGracePeriodSeconds: 1
      containers:
        - name: writer
          image: IMAGE
          command: [sh, -c, 'echo started >> /data/starts; exec sleep 3600']
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


def node_status(kubectl: Kubectl, name: str) -> str:
    conditions = kubectl.get("node", name)["status"]["conditions"]
    return str(next(one["status"] for one in conditions if one["type"] == "Ready"))


def is_not_ready(kubectl: Kubectl, name: str) -> bool:
    return node_status(kubectl, name) != "True"


def starts(kubectl: Kubectl, count: int) -> bool:
    lines = kubectl.execute("writer-0", "cat", "/data/starts").split()
    return len(lines) == count


def test_a_killed_node_turns_not_ready_and_returns_with_its_data(
    kubectl: Kubectl, base_image: str, faults: None
) -> None:
    kubectl.apply(WRITER.replace("IMAGE", base_image))
    kubectl("rollout", "status", "statefulset/writer", "--timeout=60s")
    eventually("the first start is on the volume", partial(starts, kubectl, 1), 10)

    victim = next(one for one in layout.NODES if one.name == "node-b")
    node.kill(victim)
    assert not processes.in_cgroup(victim.cgroup)
    try:
        noticed_s = eventually("NotReady", partial(is_not_ready, kubectl, victim.name), 60)
    finally:
        cluster.start_node(victim)
    back_s = eventually("the pod runs again", partial(starts, kubectl, 2), 60)
    print(f"\nNotReady {noticed_s:.1f} s after the kill; pod back {back_s:.1f} s after the node")
    assert node_status(kubectl, victim.name) == "True"
