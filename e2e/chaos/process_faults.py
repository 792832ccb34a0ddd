"""Faults of processes: brokers and operators that are killed or suspended."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chiplog_core.naming import names
from e2e.chaos.scene import Scene, check_effect
from e2e.cluster import cluster, containers, cut, node, processes
from e2e.cluster.kubectl import eventually
from e2e.cluster.processes import Process
from e2e.main.replicas import kill, pod_of

STOPPED = "T"
# Twice the interval at which the active operator renews its Lease.
RENEWALS_S = 4


@contextmanager
def leader_killed(scene: Scene) -> Iterator[None]:
    """kill -9 of every process of a leader's container."""
    broker = scene.some_leader()
    session, before = scene.session(broker), scene.processes(broker)
    kill(scene.cluster, broker)
    check_effect(f"every process of broker {broker} gone", not any(one.alive for one in before))
    yield
    scene.wait_admitted(broker, session)


@contextmanager
def all_killed(scene: Scene) -> Iterator[None]:
    """kill -9 of all brokers at once."""
    brokers = scene.brokers()
    sessions = {one: scene.session(one) for one in brokers}
    before = [process for one in brokers for process in scene.processes(one)]
    processes.end(before, signal.SIGKILL, 5)
    check_effect("every process of every broker gone", not any(one.alive for one in before))
    yield
    for broker, session in sessions.items():
        scene.wait_admitted(broker, session)


@contextmanager
def pod_deleted(scene: Scene) -> Iterator[None]:
    """kubectl delete pod of a leader."""
    broker = scene.some_leader()
    pod = pod_of(scene.cluster, broker)
    session, uid = scene.session(broker), scene.pod(broker)["metadata"]["uid"]
    scene.cluster.kubectl("delete", "pod", pod, "--wait=false")
    yield
    scene.wait_admitted(broker, session)
    check_effect(f"another {pod} than before", scene.pod(broker)["metadata"]["uid"] != uid)


@contextmanager
def node_lost(scene: Scene) -> Iterator[None]:
    """The power of a leader's node fails, and returns."""
    broker = scene.some_leader()
    session, led, where = scene.session(broker), scene.led_by(broker), scene.node(broker)
    try:
        with cut.made(cut.everything(where.pod_cidr)):
            node.kill(where)
            check_effect(
                f"every process on {where.name} gone", not processes.in_cgroup(where.cgroup)
            )
            scene.wait_deposed(broker, led)
            yield
    finally:
        cluster.start_node(where)
    scene.wait_admitted(broker, session)
    scene.operator.wait_whole()


@contextmanager
def leader_paused(scene: Scene) -> Iterator[None]:
    """SIGSTOP of a leader until other brokers lead its partitions; then SIGCONT."""
    broker = scene.some_leader()
    led = scene.led_by(broker)
    with stopped(scene.processes(broker)):
        scene.wait_deposed(broker, led)
        yield


@contextmanager
def operator_stopped(scene: Scene) -> Iterator[None]:
    """SIGSTOP of every operator pod, and kill -9 of a leader in that time."""
    broker = scene.some_leader()
    session = scene.session(broker)
    pods = scene.operator.pods()
    found = [one for pod in pods for one in containers.in_pod(pod["metadata"]["uid"])]
    with stopped(found):
        before = renewed(scene)
        kill(scene.cluster, broker)
        time.sleep(RENEWALS_S)
        check_effect("renewals of the operator's Lease stopped", renewed(scene) == before)
        yield
        check_effect("no new session while no operator runs", scene.session(broker) == session)
    scene.wait_admitted(broker, session)
    scene.operator.wait_whole()


def renewed(scene: Scene) -> str:
    """When the active operator last renewed its Lease, as the API server has it."""
    lease = scene.operator.kubectl.get("lease", names.OPERATOR_LEASE)
    return str(lease["spec"]["renewTime"])


@contextmanager
def stopped(targets: Sequence[Process]) -> Iterator[None]:
    """Suspend the processes (SIGSTOP) while the block runs, and check that they stayed
    suspended."""
    check_effect("a process to suspend", targets)
    with processes.paused(targets):
        eventually("every process is suspended", lambda: all(map(is_stopped, targets)), 5)
        yield
        check_effect("all processes suspended to the end", all(map(is_stopped, targets)))


def is_stopped(one: Process) -> bool:
    """Whether the process is suspended by SIGSTOP; False if it has ended."""
    if not one.alive:
        return False
    # The field after the program's name in parentheses is the state.
    return Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0] == STOPPED
