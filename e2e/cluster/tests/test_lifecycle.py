"""A cluster killed by force is cleared from another checkout, and `down` leaves nothing."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster import cluster, debian, images, layout, packages, processes, sweep
from e2e.cluster.control_plane import kubectl
from e2e.cluster.kubectl import eventually
from e2e.cluster.target import Local, current_target
from e2e.cluster.tests import inventory

# A pod with a volume, so that there are namespaces, mounts and a loop device to leave.
WRITER = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: writer}}
spec:
  storageClassName: local-sized
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 300Mi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: writer}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {{fsGroup: {debian.UID}}}
  containers:
    - name: writer
      image: {images.base().reference}
      command: [sh, -c, 'echo started >> /data/starts; exec sleep 3600']
      volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: writer}}}}]
"""

pytestmark = [pytest.mark.cluster, pytest.mark.lifecycle, pytest.mark.timeout(2700)]


@pytest.fixture(autouse=True)
def local_only() -> None:
    if not isinstance(current_target(), Local):
        pytest.skip("the life of a cluster is tested on CLUSTER=local: this one is not ours")


def second_checkout(checkout: Path, directory: Path) -> Path:
    """A copy of the checkout in another place, as a second clone would be."""
    for name in ("e2e", "requirements", "pyproject.toml"):
        source = checkout / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, directory / name)
    return directory


def command(checkout: Path, *arguments: str) -> str:
    """`python -m e2e.cluster` of a checkout, as its Makefile calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "e2e.cluster", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2400,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def wrote(times: int) -> bool:
    """Whether the pod has started this often, by what it wrote on its volume."""
    return len(kubectl("exec", "writer", "--", "cat", "/data/starts").split()) == times


def kill_everything() -> int:
    """SIGKILL every process of the cluster at once; returns how many there were."""
    targets = processes.marked()
    for node in layout.NODES:
        targets += processes.in_cgroup(node.cgroup)
    sweep.end_processes()
    return len(targets)


def test_killed_cluster_comes_up_from_a_second_checkout_and_down_leaves_nothing(
    checkout: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tests = tmp_path_factory.getbasetemp().parent
    command(checkout, "down")
    packages.install()  # on a bare machine there is nothing yet to take an inventory with
    before = inventory.take(tests)

    # Built by now or not, this says how long the first start took.
    print("\n" + command(checkout, "up"))
    command(checkout, "images")
    kubectl("delete", "-f", "-", "--ignore-not-found", input_text=WRITER)
    kubectl("apply", "-f", "-", input_text=WRITER)
    eventually("the writer wrote", partial(wrote, 1), 60)
    assert inventory.take(tests).added_since(before), "the inventory must see a running cluster"

    killed = kill_everything()
    assert killed >= len(cluster.expected_processes())
    assert not cluster.is_running()

    other = second_checkout(checkout, tmp_path / "second")
    print(f"\n{killed} processes killed; from a second checkout:\n" + command(other, "up"))
    eventually("the writer runs again, on its data", partial(wrote, 2), 60)
    kubectl("delete", "-f", "-", input_text=WRITER)

    command(checkout, "down")
    assert inventory.take(tests).added_since(before) == {}
    command(other, "down")
    after = inventory.take(tests)
    assert after.added_since(before) == {}
    assert before.added_since(after) == {}, "something that was here before us is gone"
