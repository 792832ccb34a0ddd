"""The Pod Security Standard `restricted`, field by field, and stricter rules for our own pods.

Written from the standard's text, not from our builders:
https://kubernetes.io/docs/concepts/security/pod-security-standards/ (as of Kubernetes 1.34).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Fields = Mapping[str, Any]

VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
SECCOMP = frozenset({"RuntimeDefault", "Localhost"})
SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
SYSCTLS = frozenset(
    {
        *(
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.ip_local_reserved_ports",
        ),
        *(
            "net.ipv4.ip_unprivileged_port_start",
            "net.ipv4.ping_group_range",
            "net.ipv4.tcp_fin_timeout",
        ),
        *(
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
            "net.ipv4.tcp_keepalive_time",
        ),
        *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
    }
)
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
HOOKS = ("livenessProbe", "readinessProbe", "startupProbe")

LONGEST_TOKEN_S = 3_600


def not_restricted(spec: Fields) -> list[str]:
    """Every violation of `restricted` in a pod's spec, a line each; empty where it is admitted."""
    return [
        *_of_pod(spec),
        *(line for one in containers(spec) for line in _of_container(spec, one)),
    ]


def not_ours(spec: Fields) -> list[str]:
    """Every violation of our own stricter rules in a pod's spec, a line each.

    A container has a read-only root file system and adds no capability. The pod mounts no automatic
    ServiceAccount token, only projected ones that expire within an hour.
    """
    found = []
    if spec.get("automountServiceAccountToken") is not False:
        found.append("automountServiceAccountToken is not false: that token may live for a year")
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            lifetime_s = source.get("serviceAccountToken", {}).get("expirationSeconds", 0)
            if lifetime_s > LONGEST_TOKEN_S:
                found.append(
                    f"volume {volume['name']}: its token lives longer than an hour: {lifetime_s} s"
                )
    for one in containers(spec):
        if not one.get("securityContext", {}).get("readOnlyRootFilesystem"):
            found.append(f"{one['name']}: readOnlyRootFilesystem is not true")
        if one.get("securityContext", {}).get("capabilities", {}).get("add"):
            found.append(f"{one['name']}: it adds capabilities")
    return found


def containers(spec: Fields) -> Iterator[Fields]:
    """All containers of a pod's spec, of every kind (`CONTAINERS`)."""
    for kind in CONTAINERS:
        yield from spec.get(kind, ())


def _of_pod(spec: Fields) -> Iterator[str]:
    """Violations in the fields of the pod itself, without its containers."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"{name} is set"
    for volume in spec.get("volumes", ()):
        for kind in set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']} is a {kind}"
    context = spec.get("securityContext", {})
    for sysctl in context.get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    yield from _of_any_context("the pod", context)


def _of_container(spec: Fields, one: Fields) -> Iterator[str]:
    """Violations in the container `one`; a field that it does not set is taken from the pod."""
    name = one["name"]
    context: Fields = one.get("securityContext", {})
    of_pod: Fields = spec.get("securityContext", {})
    yield from _of_any_context(name, context)
    if context.get("privileged"):
        yield f"{name}: privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation is not false"
    if context.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
        yield f"{name}: runAsNonRoot is not true"
    if context.get("procMount", "Default") != "Default":
        yield f"{name}: procMount is not Default"
    seccomp = context.get("seccompProfile", of_pod.get("seccompProfile", {}))
    if seccomp.get("type") not in SECCOMP:
        yield f"{name}: no seccomp profile"
    yield from _of_capabilities(name, context.get("capabilities", {}))
    for port in one.get("ports", ()):
        if port.get("hostPort"):
            yield f"{name}: host port {port['hostPort']}"
    yield from _of_hosts(name, one)


def _of_any_context(name: str, context: Fields) -> Iterator[str]:
    """Violations in a `securityContext`: the pod's or a container's; `name` says whose it is."""
    if context.get("runAsUser") == 0:
        yield f"{name}: runs as root"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield f"{name}: hostProcess"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield f"{name}: AppArmor is off"
    if context.get("seccompProfile", {}).get("type") == "Unconfined":
        yield f"{name}: seccomp is off"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{name}: sets SELinux options that are not allowed"


def _of_capabilities(name: str, capabilities: Fields) -> Iterator[str]:
    """A container must drop ALL capabilities; it may add NET_BIND_SERVICE only."""
    if "ALL" not in capabilities.get("drop", ()):
        yield f"{name}: does not drop ALL capabilities"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f"{name}: adds capabilities other than NET_BIND_SERVICE"


def _of_hosts(name: str, one: Fields) -> Iterator[str]:
    """Probes and hooks that name a host: the kubelet would connect to it from the node."""
    probes_and_hooks: Iterable[Fields] = [
        *(one.get(hook, {}) for hook in HOOKS),
        *one.get("lifecycle", {}).values(),
    ]
    for probe in probes_and_hooks:
        for action in ("httpGet", "tcpSocket"):
            if probe.get(action, {}).get("host"):
                yield f"{name}: a probe or hook sets {action}.host"
