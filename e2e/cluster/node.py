"""One node: a containerd and a kubelet with directories, sockets and cgroups of their own.

Three nodes share one kernel. The defaults that would collide (sockets, network names, address
files, log and plugin directories, the whole memory) are therefore set for each node here.
"""

import json
import os
import signal
import threading
from functools import partial
from pathlib import Path

import yaml

from e2e.cluster import build, layout, mounts, pki, processes
from e2e.cluster.layout import Node
from e2e.cluster.shell import run

CGROUPS = Path("/sys/fs/cgroup")
# The kubelet has this path compiled in: --root-dir does not change it.
PLUGIN_SOCKET = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
# Kubelets start one after the other: see `start_kubelet`.
KUBELETS = threading.Lock()
PAUSE_IMAGE = "chiplog/pause:local"
# Memory that is left to the machine and the control plane; the nodes share the rest.
MEMORY_KEPT_BYTES = 4 * 2**30


def containerd_name(node: Node) -> str:
    return f"containerd-{node.name}"


def kubelet_name(node: Node) -> str:
    return f"kubelet-{node.name}"


def start_containerd(node: Node) -> None:
    """Start the node's containerd without waiting for it: see `wait_containerd`."""
    state, run_directory = layout.node_state(node), layout.node_run(node)
    for directory in (state / "cni", run_directory):
        directory.mkdir(parents=True, exist_ok=True)
    (state / "cni" / "10-bridge.conflist").write_text(json.dumps(cni(node), indent=1))
    (state / "containerd.toml").write_text(containerd_config(node))
    processes.running(
        containerd_name(node),
        ["containerd", "--config", state / "containerd.toml", "--log-level", "warn"],
    )


def wait_containerd(node: Node) -> None:
    """Wait up to 30 s until the node's containerd answers."""

    def answers() -> bool:
        return "Server:" in ctr(node, "version", check=False)

    processes.wait_until(f"containerd of {node.name}", answers, 30, containerd_name(node))


def start_kubelet(node: Node) -> None:
    """Start the node's kubelet, and return when it listens on `PLUGIN_SOCKET`.

    All kubelets use this one path: each removes the socket of the one before and binds its own.
    If two did so at the same time, one would exit with "address already in use", hence the lock.
    Raises `TimeoutError` if the kubelet exits or does not listen within 60 s.
    """
    make_cgroups(node)
    config = layout.node_state(node) / "kubelet.yaml"
    config.write_text(yaml.safe_dump(kubelet_config(node)))
    command: list[str | Path] = [
        build.program("kubelet"),
        f"--config={config}",
        f"--kubeconfig={layout.kubeconfig(node.name)}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.ip}",
        f"--root-dir={layout.node_state(node) / 'kubelet'}",
        f"--cert-dir={layout.node_state(node) / 'kubelet' / 'pki'}",
        f"--node-labels=topology.kubernetes.io/zone={node.zone}",
        "--v=1",
    ]
    name = kubelet_name(node)
    with KUBELETS:
        kubelet = processes.running(name, command)
        has_socket = partial(processes.listens_on, kubelet, PLUGIN_SOCKET)
        processes.wait_until(f"{name} has its socket for plugins", has_socket, 60, name)


def stop(node: Node) -> None:
    """Stop the node: end the kubelet, then kill every container, then end containerd."""
    processes.stop([kubelet_name(node)])
    kill_containers(node)
    processes.stop([containerd_name(node)])


def kill(node: Node) -> None:
    """Simulate a power failure: SIGKILL all processes of the node, without any cleaning up.

    The kubelet is killed first, since it would report each dead container to the API server.
    """
    kubelet = processes.recorded(kubelet_name(node))
    processes.end([kubelet] if kubelet else [], signal.SIGKILL, 10)
    kill_containers(node)
    containerd = processes.recorded(containerd_name(node))
    processes.end([containerd] if containerd else [], signal.SIGKILL, 10)


def kill_containers(node: Node) -> None:
    """SIGKILL every process of the node's pods, and the shims that watch them."""
    socket = str(layout.containerd_socket(node))
    # Several times: a killed shim's container may start one more process.
    for _ in range(20):
        shims = [
            one
            for one in processes.marked()
            if "containerd-shim" in (line := processes.command_line(one.pid)) and socket in line
        ]
        if not (targets := processes.in_cgroup(node.cgroup) + shims):
            return
        processes.end(targets, signal.SIGKILL, 2)
    raise RuntimeError(f"processes of {node.name} survive SIGKILL: {targets}")


def ctr(node: Node, *arguments: str, check: bool = True, timeout_s: float = 300) -> str:
    """Run ctr, containerd's own client, in the namespace that Kubernetes uses; returns its
    output."""
    return run(
        *("ctr", "--address", str(layout.containerd_socket(node)), "-n", "k8s.io", *arguments),
        check=check,
        timeout_s=timeout_s,
    )


def make_cgroups(node: Node) -> None:
    """Create the node's cgroup under every v1 controller, which its kubelet expects to exist.

    A new cpuset cgroup allows no CPU, and so no process: it gets the CPUs of its parent.
    """
    for controller in controllers():
        group = controller / node.cgroup
        group.mkdir(exist_ok=True)
        for limit in ("cpuset.cpus", "cpuset.mems"):
            if (controller / limit).exists():
                (group / limit).write_text((controller / limit).read_text())


def remove_cgroups(node: Node) -> None:
    """Remove the node's cgroups, children first; no process may be left in them."""
    for controller in controllers():
        groups = [path for path, _, _ in os.walk(controller / node.cgroup)]
        for group in reversed(groups):
            Path(group).rmdir()


def controllers() -> list[Path]:
    """The mount points of the cgroup v1 hierarchies.

    A link like `cpu` to `cpu,cpuacct` is no mount point, so each hierarchy appears once.
    """
    return [Path(point) for point in mounts.points() if Path(point).parent == CGROUPS]


def memory_bytes() -> int:
    """The machine's physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cni(node: Node) -> dict[str, object]:
    """The CNI configuration of a node: a bridge for its pods.

    Pods of different nodes reach each other because the one kernel routes between the bridges.
    """
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(layout.node_run(node) / "addresses"),
    }
    bridge = {
        "type": "bridge",
        "bridge": node.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    name = f"chiplog-{node.name}"
    return {"cniVersion": "1.0.0", "name": name, "plugins": [bridge]}


def containerd_config(node: Node) -> str:
    state, run_directory = layout.node_state(node), layout.node_run(node)
    return f"""version = 2
root = "{state / "containerd"}"
state = "{run_directory / "containerd"}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{layout.containerd_socket(node)}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{state / "opt"}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{PAUSE_IMAGE}"
  # Lowering a score below the daemon's own takes CAP_SYS_RESOURCE, which not every
  # machine grants; without this line every pod's sandbox dies there.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{state / "cni"}"
"""


def kubelet_config(node: Node) -> dict[str, object]:
    """The KubeletConfiguration; every node offers an equal share of the machine's memory.

    A kubelet sees the whole machine, so what is beyond the share is declared as reserved.
    """
    share_bytes = max(memory_bytes() - MEMORY_KEPT_BYTES, 2**30) // len(layout.NODES)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "port": layout.KUBELET_PORT,
        "healthzBindAddress": node.ip,
        "healthzPort": layout.KUBELET_HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki.certificate(f"kubelet-{node.name}")),
        "tlsPrivateKeyFile": str(pki.key(f"kubelet-{node.name}")),
        "clusterDNS": [layout.DNS_IP],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "systemReserved": {"memory": str(memory_bytes() - share_bytes), "cpu": "200m"},
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "200Mi",
            "imagefs.available": "200Mi",
        },
        "imageGCHighThresholdPercent": 100,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket(node)}",
        "podLogsDir": str(layout.node_state(node) / "pod-logs"),
        "volumePluginDir": str(layout.node_state(node) / "volume-plugins"),
        # kube-proxy makes the chains it needs; the kubelet's own would be left behind.
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "5s",
        "failSwapOn": False,
        "registerNode": True,
        # A killed container comes back at once and not after minutes of doubled waits.
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }
