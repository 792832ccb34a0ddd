"""Removes every trace of a local cluster, no matter how it was started and ended.

Nothing here relies on pid files or on a clean stop: processes are found by their
mark and their cgroup, mounts and loop devices by their directory, the rest by the
record in `host.py`. What a cluster has stored (etcd, volumes, images) stays.
"""

import shutil
import signal
from pathlib import Path

from e2e.cluster import host, layout, mounts, node, processes
from e2e.cluster.shell import run

POD_LOG_LINKS = Path("/var/log/containers")


def sweep() -> None:
    """End the cluster's processes, and undo its mounts, network, firewall rules and cgroups."""
    # In this order: what a process still uses cannot be removed.
    end_processes()
    for directory in (layout.STATE, layout.RUN):
        mounts.unmount_below(directory)
    for device in mounts.loop_devices(layout.STATE):
        run("losetup", "--detach", device)
    host.restore()
    for one in layout.NODES:
        node.remove_cgroups(one)
    remove_log_links()
    if layout.RUN.exists():
        remove_directory(layout.RUN)


def end_processes() -> None:
    """SIGKILL the cluster's processes until none is left.

    Several times, as the container of a killed shim may start one more process.
    """
    targets: list[processes.Process] = []
    for _ in range(20):
        targets = processes.marked()
        for one in layout.NODES:
            targets += processes.in_cgroup(one.cgroup)
        if not targets:
            return
        processes.end(targets, signal.SIGKILL, 2)
    raise RuntimeError(f"processes of the cluster survive SIGKILL: {targets}")


def remove_directory(directory: Path) -> None:
    """Delete a directory. Raises `RuntimeError` if anything is mounted in it, so that the files of
    a mounted file system are never deleted."""
    if left := mounts.below(directory):
        raise RuntimeError(f"{directory} is not deleted, since these are still mounted: {left}")
    shutil.rmtree(directory)


def remove_log_links() -> None:
    """Remove our links from /var/log/containers, where every kubelet links its containers' logs."""
    if not POD_LOG_LINKS.is_dir():
        return
    for link in POD_LOG_LINKS.iterdir():
        if link.is_symlink() and link.readlink().is_relative_to(layout.STATE):
            link.unlink()


def forget() -> None:
    """Delete the stored data except images, so that the next start makes a new cluster."""
    for name in ("etcd", "volumes", "log", "pki", "kubeconfig"):
        if (layout.STATE / name).exists():
            remove_directory(layout.STATE / name)
    for one in layout.NODES:
        for name in ("kubelet", "pod-logs"):
            if (layout.node_state(one) / name).exists():
                remove_directory(layout.node_state(one) / name)


def remove_state() -> None:
    """Delete everything a stopped cluster stored, images included."""
    if layout.STATE.exists():
        remove_directory(layout.STATE)
