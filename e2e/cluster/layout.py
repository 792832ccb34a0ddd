"""Where everything of the local cluster lies: nodes, addresses, ports and paths.

Addresses come from 198.18.0.0/15, the range reserved for benchmarks (RFC 2544),
so that they cannot collide with a network this machine is connected to. All programs
listen on 127.0.0.1 or in that range only.
"""

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.34.4"

POD_CIDR = "198.18.0.0/16"
SERVICE_CIDR = "198.19.0.0/16"
NODE_CIDR = "198.18.255.0/24"
API_SERVER_SERVICE_IP = "198.19.0.1"
DNS_IP = "198.18.255.1"
CLUSTER_DOMAIN = "cluster.local"
NODE_PORTS = (30000, 32767)

# Environment variable of every process of the cluster, inherited by the processes that it
# starts: by it a cluster is found again after its pid files were lost.
PROCESS_MARK = "CHIPLOG_CLUSTER_PROCESS"

CONTEXT = "chiplog-local"


@dataclass(frozen=True, slots=True)
class Node:
    """One Kubernetes node: a containerd and a kubelet of this machine."""

    name: str
    zone: str
    ip: str
    pod_cidr: str

    @property
    def bridge(self) -> str:
        """Name of the pods' bridge; the kernel allows 15 characters."""
        return f"chip-{self.name.removeprefix('node-')}"

    @property
    def cgroup(self) -> str:
        """Name of the cgroup that holds this node's pods; it exists under every v1 controller."""
        return f"chiplog-{self.name}"


NODES = (
    Node("node-a", "zone-a", "198.18.255.1", "198.18.1.0/24"),
    Node("node-b", "zone-b", "198.18.255.2", "198.18.2.0/24"),
    Node("node-c", "zone-c", "198.18.255.3", "198.18.3.0/24"),
)
CONTROL_PLANE_IP = NODES[0].ip


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP or UDP port that a program of this cluster listens on; `purpose` names that program."""

    ip: str
    number: int
    purpose: str


API_SERVER = Port(CONTROL_PLANE_IP, 6443, "kube-apiserver")
ETCD_CLIENT = Port("127.0.0.1", 22379, "etcd (clients)")
ETCD_PEER = Port("127.0.0.1", 22380, "etcd (peers)")
CONTROLLER_MANAGER = Port("127.0.0.1", 22257, "kube-controller-manager")
SCHEDULER = Port("127.0.0.1", 22259, "kube-scheduler")
PROXY_HEALTH = Port("127.0.0.1", 22256, "kube-proxy (health)")
PROXY_METRICS = Port("127.0.0.1", 22249, "kube-proxy (metrics)")
DNS = Port(DNS_IP, 53, "CoreDNS")
DNS_READY = Port("127.0.0.1", 22181, "CoreDNS (readiness)")
AGENT = Port("127.0.0.1", 22190, "cluster agent")
KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248

PORTS = (
    API_SERVER,
    ETCD_CLIENT,
    ETCD_PEER,
    CONTROLLER_MANAGER,
    SCHEDULER,
    PROXY_HEALTH,
    PROXY_METRICS,
    DNS,
    DNS_READY,
    AGENT,
    *(Port(node.ip, KUBELET_PORT, f"kubelet of {node.name}") for node in NODES),
    *(Port(node.ip, KUBELET_HEALTH_PORT, f"kubelet of {node.name} (health)") for node in NODES),
)

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).resolve().parent

# A machine has at most one cluster. The paths are fixed, so that any checkout finds it.
STATE = Path("/var/lib/chiplog-cluster")
RUN = Path("/run/chiplog-cluster")
LOGS = STATE / "log"
KUBECONFIG = STATE / "kubeconfig" / "admin"
VOLUMES = STATE / "volumes"
NFT_TABLE = "chiplog-netpol"


def cache() -> Path:
    """The directory of builds, images and downloads, all of which can be made again if deleted."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "chiplog"


def kubeconfig(user: str) -> Path:
    """The kubeconfig of a user of `pki.CLIENTS` (`admin`, `scheduler`, a node's name …)."""
    return STATE / "kubeconfig" / user


def node_state(node: Node) -> Path:
    """Directory of what a node keeps while it is stopped: images, containers, kubelet state."""
    return STATE / "nodes" / node.name


def node_run(node: Node) -> Path:
    """Directory of a node's sockets and namespaces, which do not survive a reboot."""
    return RUN / node.name


def containerd_socket(node: Node) -> Path:
    return node_run(node) / "containerd.sock"
