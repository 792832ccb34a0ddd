"""Restarts of brokers that users request by annotations.

`kubectl rollout restart statefulset/demo-broker-1` writes a time into the pod template of the
StatefulSet. Kubernetes does nothing about it (`OnDelete`); the operator restarts a pod that has
another time. The annotation `chiplog.dev/manual-rolling-update: "true"`, on a StatefulSet or on a
pod, requests one restart, as Strimzi's does. On a pod it is gone with the pod; the operator removes
it from a StatefulSet.

On a BrokerCluster the annotation requests the restart of all brokers. The operator sets it on their
StatefulSets, then removes it from the BrokerCluster, and only then restarts the first broker. So it
knows at any time which brokers are still to be restarted, and restarts each once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RequestRestarts, SetMetadata
from chiplog_core.model.annotations import MANUAL_ROLLING_UPDATE, field_of
from chiplog_core.naming import api, labels
from chiplog_core.observed.world import PodState, StatefulSetState, World
from chiplog_core.problems import Problem

MANUAL = "ManualRollingUpdate"
ROLLOUT_RESTART = "RolloutRestart"


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Why a broker is to be restarted, for the Event."""

    reason: str
    message: str
    stateful_set: str = ""
    """Name of the StatefulSet whose annotation requests the restart: the operator removes the
    annotation after the restart. Empty if the request is not an annotation of a StatefulSet."""


def is_requested_for_all(world: World) -> bool:
    """Whether the BrokerCluster's annotation requests the restart of all brokers."""
    return MANUAL_ROLLING_UPDATE.is_set(world.metadata.annotations)


def requests_for_all(
    world: World, broker_ids: Sequence[BrokerId]
) -> Iterator[RequestRestarts | SetMetadata]:
    """The next step to hand the request of the BrokerCluster on to the StatefulSets: set the
    annotation on those that lack it, or, if none does, remove it from the BrokerCluster."""
    if not is_requested_for_all(world):
        return
    owners = [world.stateful_sets[one] for one in broker_ids if one in world.stateful_sets]
    lacking = [one.name for one in owners if not MANUAL_ROLLING_UPDATE.is_set(one.annotations)]
    if lacking:
        yield RequestRestarts(stateful_sets=tuple(lacking))
    elif owners:
        yield SetMetadata(
            kind=api.BROKER_CLUSTER,
            metadata=world.metadata,
            removed_annotations=(labels.MANUAL_ROLLING_UPDATE,),
        )


def restart_requests(world: World) -> Mapping[BrokerId, RestartRequest]:
    """The requested restarts, for brokers whose pods are not already being deleted."""
    found = {}
    for broker_id, pod in sorted(world.pods.items()):
        request = None if pod.deleting else _request_of(pod, world.stateful_sets.get(broker_id))
        if request is not None:
            found[broker_id] = request
    return found


def restart_request_problems(world: World) -> Iterator[Problem]:
    """Problems with restart annotations: an unknown value, or an annotation in a pod template."""
    problem = MANUAL_ROLLING_UPDATE.problem(world.metadata.annotations, "BrokerCluster")
    if problem is not None:
        yield problem
    for broker_id, pod in sorted(world.pods.items()):
        owner = world.stateful_sets.get(broker_id)
        annotations_of_owner = (
            [(f"StatefulSet {owner.name}", owner.annotations)] if owner is not None else []
        )
        for object_text, annotations in (
            *annotations_of_owner,
            (f"Pod {pod.name}", pod.annotations),
        ):
            problem = MANUAL_ROLLING_UPDATE.problem(annotations, object_text)
            if problem is not None:
                yield problem
        if owner is not None and labels.MANUAL_ROLLING_UPDATE in owner.template_annotations:
            yield _in_template(owner)


def _request_of(pod: PodState, owner: StatefulSetState | None) -> RestartRequest | None:
    """The restart that an annotation of the pod or of its StatefulSet requests; None if none
    does."""
    if owner is not None and MANUAL_ROLLING_UPDATE.is_set(owner.annotations):
        return RestartRequest(MANUAL, _by_annotation(f"StatefulSet {owner.name}"), owner.name)
    # An annotation from the template would restart each new pod again.
    is_from_template = owner is not None and MANUAL_ROLLING_UPDATE.is_set(
        owner.template_annotations
    )
    if MANUAL_ROLLING_UPDATE.is_set(pod.annotations) and not is_from_template:
        return RestartRequest(MANUAL, _by_annotation("the pod"))
    wanted_at = "" if owner is None else owner.template_annotations.get(labels.RESTARTED_AT, "")
    if wanted_at and pod.annotations.get(labels.RESTARTED_AT) != wanted_at:
        return RestartRequest(
            ROLLOUT_RESTART, f"Requested by kubectl rollout restart at {wanted_at}"
        )
    return None


def _in_template(owner: StatefulSetState) -> Problem:
    """The problem that the restart annotation is in the StatefulSet's pod template."""
    return Problem(
        f"StatefulSet {owner.name} spec.template.{field_of(labels.MANUAL_ROLLING_UPDATE)}",
        "cannot request a restart, because every new pod has it too",
        "remove it, and annotate the StatefulSet itself",
    )


def _by_annotation(where: str) -> str:
    return f"Requested by the annotation {labels.MANUAL_ROLLING_UPDATE} of {where}"
