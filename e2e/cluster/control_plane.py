"""The programs of the control plane, one of each in the cluster: flags, start order, readiness."""

import datetime
import ssl
import urllib.request
from functools import partial
from pathlib import Path

from e2e.cluster import build, layout, pki, processes
from e2e.cluster.layout import Port
from e2e.cluster.shell import run

# In the order in which they are stopped. While watches are open, the API server takes up to a
# minute to end after SIGTERM, so every program is killed after a few seconds. etcd ends last, so
# that nothing writes to it any more.
NAMES = (
    "agent",
    "coredns",
    "kube-proxy",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
)


def etcd() -> list[str | Path]:
    client = f"http://{layout.ETCD_CLIENT.ip}:{layout.ETCD_CLIENT.number}"
    peer = f"http://{layout.ETCD_PEER.ip}:{layout.ETCD_PEER.number}"
    return [
        build.program("etcd"),
        "--name=local",
        f"--data-dir={layout.STATE / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        # Safe against a crash of etcd; only a crash of the machine would lose writes.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server() -> list[str | Path]:
    return [
        build.program("kube-apiserver"),
        f"--etcd-servers=http://{layout.ETCD_CLIENT.ip}:{layout.ETCD_CLIENT.number}",
        f"--bind-address={layout.API_SERVER.ip}",
        f"--advertise-address={layout.API_SERVER.ip}",
        f"--secure-port={layout.API_SERVER.number}",
        f"--service-cluster-ip-range={layout.SERVICE_CIDR}",
        f"--service-node-port-range={layout.NODE_PORTS[0]}-{layout.NODE_PORTS[1]}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki.certificate('ca')}",
        f"--tls-cert-file={pki.certificate('apiserver')}",
        f"--tls-private-key-file={pki.key('apiserver')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki.certificate('ca')}",
        f"--kubelet-client-certificate={pki.certificate('kubelet-client')}",
        f"--kubelet-client-key={pki.key('kubelet-client')}",
        f"--service-account-issuer=https://kubernetes.default.svc.{layout.CLUSTER_DOMAIN}",
        f"--service-account-key-file={pki.certificate('service-accounts')}",
        f"--service-account-signing-key-file={pki.key('service-accounts')}",
        "--profiling=false",
    ]


def controller_manager() -> list[str | Path]:
    return [
        build.program("kube-controller-manager"),
        f"--kubeconfig={layout.kubeconfig('controller-manager')}",
        f"--bind-address={layout.CONTROLLER_MANAGER.ip}",
        f"--secure-port={layout.CONTROLLER_MANAGER.number}",
        f"--root-ca-file={pki.certificate('ca')}",
        f"--service-account-private-key-file={pki.key('service-accounts')}",
        # The pods' networks are fixed per node in the CNI files; handed out in the
        # order of registration they would not match them.
        "--allocate-node-cidrs=false",
        # Each controller as an account of its own: their default roles are bound to those.
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=20s",
    ]


def scheduler() -> list[str | Path]:
    return [
        build.program("kube-scheduler"),
        f"--kubeconfig={layout.kubeconfig('scheduler')}",
        f"--bind-address={layout.SCHEDULER.ip}",
        f"--secure-port={layout.SCHEDULER.number}",
        "--leader-elect=false",
    ]


def proxy() -> list[str | Path]:
    """One kube-proxy serves all nodes: they share the machine's firewall."""
    return [
        build.program("kube-proxy"),
        f"--kubeconfig={layout.kubeconfig('proxy')}",
        f"--hostname-override={layout.NODES[0].name}",
        # The nftables mode does not answer NodePorts on 127.0.0.1.
        "--proxy-mode=iptables",
        f"--cluster-cidr={layout.POD_CIDR}",
        f"--nodeport-addresses=127.0.0.0/8,{layout.NODE_CIDR}",
        f"--healthz-bind-address={layout.PROXY_HEALTH.ip}:{layout.PROXY_HEALTH.number}",
        f"--metrics-bind-address={layout.PROXY_METRICS.ip}:{layout.PROXY_METRICS.number}",
        "--iptables-min-sync-period=200ms",
        # Leave the machine's connection tracking limits as they are.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]


def coredns() -> list[str | Path]:
    """CoreDNS, which answers for the cluster's own names only; all others do not exist."""
    corefile = layout.STATE / "Corefile"
    corefile.write_text(
        f"""{layout.CLUSTER_DOMAIN} in-addr.arpa {{
    bind {layout.DNS.ip}
    errors
    ready {layout.DNS_READY.ip}:{layout.DNS_READY.number}
    kubernetes {layout.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {layout.kubeconfig("coredns")} {layout.CONTEXT}
        pods verified
        ttl 5
    }}
}}
. {{
    bind {layout.DNS.ip}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
    )
    return [build.program("coredns"), "-conf", corefile]


def agent() -> list[str | Path]:
    return [
        build.program("agent"),
        f"--kubeconfig={layout.kubeconfig('agent')}",
        f"--volumes-dir={layout.VOLUMES}",
        f"--nft-table={layout.NFT_TABLE}",
        f"--listen={layout.AGENT.ip}:{layout.AGENT.number}",
    ]


def start_api_server() -> None:
    """Start etcd and the API server, and wait until the API server reports that it is ready."""
    processes.running("etcd", etcd())
    processes.running("kube-apiserver", api_server())
    processes.wait_until("API server ready", api_server_ready, 60, "kube-apiserver")


def start_rest() -> None:
    """Start the other programs without waiting: see `wait_volumes` and `wait_services`."""
    kubectl("apply", "--server-side", "-f", str(layout.SOURCE / "manifests" / "bootstrap.yaml"))
    processes.running("kube-controller-manager", controller_manager())
    processes.running("kube-scheduler", scheduler())
    processes.running("kube-proxy", proxy())
    processes.running("coredns", coredns())
    processes.running("agent", agent())


def wait_volumes() -> None:
    """Wait until the agent has mounted again every volume that has a size limit.

    No kubelet may run before that: a pod would write into the directory under the mount point.
    """
    wait_for("agent", layout.AGENT, "/readyz")


def wait_services() -> None:
    """Wait until DNS names and Services answer."""
    wait_for("coredns", layout.DNS_READY, "/ready")
    wait_for("kube-proxy", layout.PROXY_HEALTH, "/healthz")


def wait_for(name: str, port: Port, path: str) -> None:
    """Wait up to 60 s until the program `name` answers an HTTP GET on this port and path."""
    processes.wait_until(f"{name} ready", partial(answers, port, path), 60, name)


def answers(port: Port, path: str) -> bool:
    """Whether an HTTP GET is answered with status 200 within 2 s."""
    try:
        with urllib.request.urlopen(f"http://{port.ip}:{port.number}{path}", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def api_server_ready() -> bool:
    context = ssl.create_default_context(cafile=str(pki.certificate("ca")))
    context.load_cert_chain(pki.certificate("admin"), pki.key("admin"))
    url = f"https://{layout.API_SERVER.ip}:{layout.API_SERVER.number}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def kubectl(*arguments: str, input_text: str | None = None, timeout_s: float = 60) -> str:
    """kubectl as the cluster's administrator."""
    return run(
        *(str(build.program("kubectl")), f"--kubeconfig={layout.KUBECONFIG}", *arguments),
        input_text=input_text,
        timeout_s=timeout_s,
    )


def stop() -> None:
    processes.stop(NAMES)


def ready_nodes(since: datetime.datetime) -> set[str]:
    """Names of the nodes that are Ready and renewed their Lease after `since`.

    After a restart the API server still reports nodes as Ready that do not run yet: only a Lease
    renewed after the start shows that a kubelet is alive.
    """
    nodes = kubectl(
        "get",
        "nodes",
        "-o",
        'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status}'
        "{'\\n'}{end}",
    )
    leases = kubectl(
        *("get", "leases", "-n", "kube-node-lease", "-o"),
        "jsonpath={range .items[*]}{.metadata.name}={.spec.renewTime}{'\\n'}{end}",
    )
    renewed = {
        name
        for name, _, when in (line.partition("=") for line in leases.split())
        if when and datetime.datetime.fromisoformat(when) >= since
    }
    return {
        line.removesuffix("=True") for line in nodes.split() if line.endswith("=True")
    } & renewed
