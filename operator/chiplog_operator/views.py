"""What decisions need of objects that Kubernetes keeps: pods, nodes, Leases, Services.

Pure functions from manifests to small values. The values also distinguish a change that
matters from one that does not.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.limits import MAX_NAME_LENGTH
from chiplog_core.model.listener_configuration import HOST_PATTERN
from chiplog_core.model.termination_message import read_termination_message
from chiplog_core.naming import labels
from chiplog_core.observed.world import ClaimState, NodeState, PodState, StatefulSetState
from chiplog_core.quantities import QUANTITY_PATTERN, Quantity
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import annotations_of, condition_of, labels_of, metadata
from chiplog_operator.resources.pod import CONTAINER

KEPT_OF_CONDITIONS = ("type", "status", "reason", "message", "lastTransitionTime")
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that the scheduler chose for its volume."""
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits that is about to start, so they are no problem."""

OUT_OF_MEMORY = "OOMKilled"
"""Reason with which the kubelet reports a container that exceeded its memory limit."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that the kubelet says has ended."""

    incarnation: Incarnation
    how: str
    """How the process ended, in words."""
    has_failed_disk: bool
    """Whether its termination message says that a write or a sync to its disk failed."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """A broker's Lease, as far as it shows that a process is alive."""

    broker_id: BrokerId
    incarnation: Incarnation
    renew_time: str


def differ(
    view: Callable[[Manifest], object], before: Manifest | None, after: Manifest | None
) -> bool:
    """Whether two states of an object have different results of `view`. None is no object."""
    if before is None or after is None:
        return before is not after
    return view(before) != view(after)


def broker_id_of(manifest: Manifest) -> BrokerId | None:
    """The broker id in the object's label; None if it belongs to no single broker."""
    text = labels_of(manifest).get(labels.BROKER_ID, "")
    return BrokerId(int(text)) if text.isascii() and text.isdigit() else None


def renewal(lease: Manifest) -> Renewal | None:
    """The renewal in a Lease; None while no broker holds it."""
    spec = lease.get("spec") or {}
    broker_id = broker_id_of(lease)
    holder, renew_time = spec.get("holderIdentity"), spec.get("renewTime")
    if broker_id is None or not holder or not renew_time:
        return None
    return Renewal(broker_id, Incarnation(holder), renew_time)


def desired_state(manifest: Manifest) -> object:
    """The part of a user's object that only users change, to compare it with another state.

    The status and the operator's label are left out. The generation stands for the spec: the API
    server raises it when the spec changes.
    """
    meta = metadata(manifest)
    names = ("uid", "generation", "annotations", "deletionTimestamp", "finalizers")
    users = {name: value for name, value in labels_of(manifest).items() if name != labels.CLUSTER}
    spec = None if "generation" in meta else manifest.get("spec")
    return [meta.get(name) for name in names], users, spec


# ---- pods ----


def kept_pod(pod: Manifest) -> Manifest:
    """The fields of a pod that the operator reads."""
    meta, spec, status = metadata(pod), pod.get("spec") or {}, pod.get("status") or {}
    return {
        **{name: pod[name] for name in ("apiVersion", "kind") if name in pod},
        "metadata": {
            name: meta[name]
            for name in (
                *("name", "namespace", "uid", "resourceVersion", "labels", "annotations"),
                "deletionTimestamp",
            )
            if name in meta
        },
        "spec": {"nodeName": spec.get("nodeName", "")},
        "status": {
            "phase": status.get("phase", ""),
            "podIP": status.get("podIP", ""),
            "conditions": [
                {name: condition.get(name, "") for name in KEPT_OF_CONDITIONS}
                for condition in status.get("conditions") or []
                if condition.get("type") in {"Ready", "PodScheduled"}
            ],
            "containerStatuses": [
                {
                    name: container[name]
                    for name in ("name", "started", "state", "lastState")
                    if name in container
                }
                for container in status.get("containerStatuses") or []
            ],
        },
    }


def pod(manifest: Manifest) -> PodState:
    """The fields of a pod that decisions depend on."""
    meta = metadata(manifest)
    ready = _is_true(condition_of(manifest, "Ready"))
    return PodState(
        name=meta["name"],
        uid=meta.get("uid", ""),
        address=(manifest.get("status") or {}).get("podIP") or "",
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        bound_at=_bound_at(manifest),
        ready=ready,
        starting=_is_starting(manifest),
        running_since=_running_since(manifest),
        has_started=_has_started(manifest),
        ran_out_of_memory=_ran_out_of_memory(manifest),
        unready_since=_unready_since(manifest),
        deleting="deletionTimestamp" in meta,
        revision=annotations_of(manifest).get(labels.REVISION, ""),
        annotations=_known_annotations(annotations_of(manifest)),
        message="" if ready else _why_not_running(manifest),
    )


def stateful_set(manifest: Manifest) -> StatefulSetState:
    """The fields of a StatefulSet that decisions depend on."""
    template = (manifest.get("spec") or {}).get("template") or {}
    return StatefulSetState(
        name=metadata(manifest)["name"],
        annotations=_known_annotations(annotations_of(manifest)),
        template_annotations=_known_annotations(annotations_of(template)),
    )


def _known_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations by which users request a restart or a new volume."""
    return {key: annotations[key] for key in labels.POD_ANNOTATIONS if key in annotations}


def _bound_at(manifest: Manifest) -> datetime | None:
    """When a pod was assigned to a node; None if it was not."""
    scheduled = condition_of(manifest, "PodScheduled")
    return _moment(scheduled.get("lastTransitionTime")) if _is_true(scheduled) else None


def claim(manifest: Manifest) -> ClaimState:
    """The fields of a volume claim that decisions depend on."""
    meta, spec = metadata(manifest), manifest.get("spec") or {}
    status = manifest.get("status") or {}
    phase = status.get("phase", "")
    node = annotations_of(manifest).get(SELECTED_NODE, "")
    return ClaimState(
        name=meta["name"],
        uid=meta.get("uid", ""),
        owners=frozenset(owner_uids(manifest)),
        is_pending=phase == "Pending",
        has_node=bool(node),
        node=node,
        has_volume=bool(spec.get("volumeName")),
        deleting="deletionTimestamp" in meta,
        created_at=_moment(meta.get("creationTimestamp")),
        requested=_storage((spec.get("resources") or {}).get("requests") or {}),
        capacity=_storage(status.get("capacity") or {}) if phase == "Bound" else None,
        storage_class=spec.get("storageClassName") or "",
    )


def owner_uids(manifest: Manifest) -> list[str]:
    """The uids in the object's ownerReferences."""
    return [owner.get("uid", "") for owner in metadata(manifest).get("ownerReferences") or []]


def _storage(sizes: Mapping[str, Any]) -> Quantity | None:
    """The size in `storage`; None if it is missing or cannot be parsed."""
    text = str(sizes.get("storage", ""))
    return Quantity(text) if re.fullmatch(QUANTITY_PATTERN, text) else None


def _is_true(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _why_not_running(manifest: Manifest) -> str:
    """Why the pod is not scheduled or its container waits. Empty for other states, and while the
    container is about to start."""
    scheduled = condition_of(manifest, "PodScheduled")
    if scheduled.get("status") == "False":
        return _sentence(scheduled.get("reason"), scheduled.get("message"))
    for container in _containers(manifest):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in STARTING:
            return _sentence(waiting.get("reason"), waiting.get("message"))
    return ""


def _is_starting(manifest: Manifest) -> bool:
    """Whether the broker's container runs, and its startup probe has not succeeded yet."""
    container = _broker_container(manifest)
    return "running" in (container.get("state") or {}) and container.get("started") is False


def _has_started(manifest: Manifest) -> bool:
    """Whether the startup probe of the broker's container has succeeded."""
    return _broker_container(manifest).get("started") is True


def _running_since(manifest: Manifest) -> datetime | None:
    """When the process that runs in the broker's container began."""
    running = (_broker_container(manifest).get("state") or {}).get("running") or {}
    return _moment(running.get("startedAt"))


def _ran_out_of_memory(manifest: Manifest) -> bool:
    """Whether a run of the broker's container was ended by its memory limit before it had started
    up, and the container has not started up since."""
    container, unready_since = _broker_container(manifest), _unready_since(manifest)
    if container.get("started") is True or unready_since is None:
        return False
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated") or {}
        began = _moment(ended.get("startedAt"))
        if ended.get("reason") == OUT_OF_MEMORY and began is not None and began >= unready_since:
            return True
    return False


def _broker_container(manifest: Manifest) -> dict[str, Any]:
    """The status of the broker's own container; empty before it has one. A webhook may add others
    to the pod."""
    named = (one for one in _containers(manifest) if one.get("name") == CONTAINER)
    return next(named, {})


def _unready_since(manifest: Manifest) -> datetime | None:
    """When the pod became unready. One that is not scheduled has no condition Ready."""
    for type_ in ("Ready", "PodScheduled"):
        condition = condition_of(manifest, type_)
        if condition:
            is_false = condition.get("status") == "False"
            return _moment(condition.get("lastTransitionTime")) if is_false else None
    return None


def _sentence(reason: str | None, message: str | None) -> str:
    """Reason and message as one text, without those that are missing."""
    return ": ".join(part for part in (reason, message) if part)


def _containers(manifest: Manifest) -> list[dict[str, Any]]:
    return (manifest.get("status") or {}).get("containerStatuses") or []


def ended_processes(manifest: Manifest) -> Iterator[Ended]:
    """The processes that have ended according to the kubelet.

    The incarnation is what the process itself wrote into its termination message. So it is never
    that of another process, even if the next one already runs.
    """
    for container in _containers(manifest):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            termination = read_termination_message(ended.get("message") or "")
            if termination is not None:
                how = f"{ended.get('reason') or 'Ended'}, exit code {ended.get('exitCode')}"
                yield Ended(termination.incarnation, how, termination.has_failed_disk)


# ---- nodes and Services ----


def kept_node(node: Manifest) -> Manifest:
    """The fields of a node that the operator reads, which are few."""
    meta, status = metadata(node), node.get("status") or {}
    return {
        "metadata": {
            name: meta[name]
            for name in ("name", "uid", "resourceVersion", "labels")
            if name in meta
        },
        "spec": {"unschedulable": (node.get("spec") or {}).get("unschedulable") is True},
        "status": {"addresses": status.get("addresses") or []},
    }


def node(manifest: Manifest) -> NodeState:
    """The fields of a node that decisions depend on."""
    addresses = (manifest.get("status") or {}).get("addresses") or []
    internal = [address["address"] for address in addresses if address.get("type") == "InternalIP"]
    return NodeState(
        name=metadata(manifest)["name"],
        address=internal[0] if internal else "",
        labels=labels_of(manifest),
        cordoned=(manifest.get("spec") or {}).get("unschedulable") is True,
    )


def owners_of(manifest: Manifest) -> frozenset[str]:
    """The uids of the objects that own this one."""
    owners = metadata(manifest).get("ownerReferences") or []
    return frozenset(owner["uid"] for owner in owners if owner.get("uid"))


def service_address(service: Manifest) -> str:
    """The address or DNS name of the Service's load balancer; empty if it has none that can be
    advertised."""
    if (service.get("spec") or {}).get("type") != "LoadBalancer":
        return ""
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}]
    found = str(ingress[0].get("hostname") or ingress[0].get("ip") or "")
    is_host = len(found) <= MAX_NAME_LENGTH and re.fullmatch(HOST_PATTERN, found)
    return found if is_host else ""


def node_ports(service: Manifest) -> dict[str, int]:
    """The node ports that Kubernetes allocated, by port name."""
    return {
        port["name"]: port["nodePort"]
        for port in (service.get("spec") or {}).get("ports") or []
        if port.get("nodePort") and port.get("name")
    }
