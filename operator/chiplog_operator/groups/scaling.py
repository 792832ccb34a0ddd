"""Scales the Deployments that ConsumerGroups name, as `chiplog_core.group_watch.scaling` decides.

A Deployment is read before it is written, and written only as it was read. While anybody else
scales it too, or anything about it is not known, it is left alone.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.group_watch.deployments import (
    agrees,
    autoscaled,
    forbidden,
    may_scale,
    missing,
    not_agreed,
    scaled,
)
from chiplog_core.group_watch.requests import FindTopic
from chiplog_core.group_watch.scaling import (
    Facts,
    Memory,
    Step,
    known_lag,
    known_partitions,
    step,
)
from chiplog_core.group_watch.watch import ObservedGroup
from chiplog_core.model.actions import Announce, EventType
from chiplog_core.model.conditions import ConditionStatus, Verdict
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.naming import api as own_api
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Conflict, Forbidden, KubeApi, Manifest, NotFound
from chiplog_kube.manifests import annotations_of
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.events import Announcer
from chiplog_operator.writes import IN_FLIGHT, Authority, NotActive

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 5_000
"""This often a Deployment is checked."""


@dataclass(slots=True)
class _Known:
    """The memory about one ConsumerGroup."""

    checked_ms: int
    memory: Memory | None = None
    verdict: Verdict | None = None


class Scaling:
    """Scales the Deployments of one cluster's groups. `reconcile` is called in every pass."""

    def __init__(
        self,
        api: KubeApi,
        *,
        clock: Clock,
        authority: Authority,
        events: Announcer,
    ) -> None:
        """`events` creates an Event for every change."""
        self._api = api
        self._clock = clock
        self._authority = authority
        self._events = events
        self._known: dict[str, _Known] = {}

    async def reconcile(
        self,
        observed: Iterable[ObservedGroup],
        find_topic: FindTopic,
    ) -> Mapping[str, Verdict]:
        """Scale the Deployments that are due. Returns the verdict on each group, by uid. Raises
        `NotActive`."""
        subjects = [seen for seen in observed if may_scale(seen.group)]
        uids = {seen.group.metadata.uid for seen in subjects}
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}
        now_ms = self._now_ms()
        due = [seen for seen in subjects if self._is_due(seen, now_ms)]
        context = _Context(find_topic, _Autoscalers(self._api))
        await run_concurrently(
            lambda seen: self._reconcile(seen, context), due, max_concurrent=IN_FLIGHT
        )
        return {
            seen.group.metadata.uid: known.verdict
            for seen in subjects
            if (known := self._known.get(seen.group.metadata.uid)) is not None
            and known.verdict is not None
        }

    def _is_due(self, seen: ObservedGroup, now_ms: int) -> bool:
        """Whether the group's Deployment is to be checked now."""
        if seen.facts is None:
            return False  # its coordinator does not answer
        known = self._known.get(seen.group.metadata.uid)
        return known is None or now_ms - known.checked_ms >= INTERVAL_MS

    async def _reconcile(self, observed: ObservedGroup, context: "_Context") -> None:
        """Check one group's Deployment, scale it if needed, and keep the verdict. After a failed
        request, the former verdict stays."""
        group, now_ms = observed.group, self._now_ms()
        known = self._known.setdefault(group.metadata.uid, _Known(checked_ms=now_ms))
        known.checked_ms = now_ms
        before = known.verdict
        try:
            known.verdict = await self._verdict(observed, context, known)
        except Forbidden as error:
            known.verdict = forbidden(str(error))
        except Conflict:
            pass  # somebody else wrote it in the meantime: it is read again
        except ApiError as error:
            facts = {"group": group.group_id, "error": str(error)}
            logger.warning("group_not_scaled", extra=facts)
        await self._announce_refusal(group, before, known.verdict)

    async def _announce_refusal(
        self, group: ConsumerGroup, before: Verdict | None, after: Verdict | None
    ) -> None:
        """Create an Event if the Deployment is not scaled and the verdict differs from the one
        `before`, so that each reason is announced once."""
        if after is None or after == before or after.status is not ConditionStatus.FALSE:
            return
        await self._events.announce(
            Announce(
                kind=own_api.CONSUMER_GROUP.kind,
                api_version=own_api.API_VERSION,
                metadata=group.metadata,
                type=EventType.WARNING,
                reason=after.reason,
                message=after.message,
            )
        )

    async def _verdict(
        self, observed: ObservedGroup, context: "_Context", known: _Known
    ) -> Verdict:
        """Scale the Deployment if needed. Returns the verdict: that it is scaled, or why not.

        It is scaled only if it has the annotation that allows it, and no HorizontalPodAutoscaler
        scales it. Otherwise the memory for smooth scaling (`known.memory`) starts again.
        """
        group, scale = observed.group, observed.group.spec.scale
        assert scale is not None, "only such a group is due"
        namespace, name = group.metadata.namespace, scale.deployment_ref.name
        try:
            deployment = await self._api.get(kinds.DEPLOYMENTS, namespace, name)
        except NotFound:
            known.memory = None
            return missing(namespace, name)
        annotations = annotations_of(deployment)
        if not agrees(annotations, group):
            known.memory = None
            return not_agreed(annotations, group, name)
        autoscaler = _autoscaler_of(name, await context.autoscalers.of(namespace))
        if autoscaler:
            known.memory = None
            return autoscaled(autoscaler, name)
        assert observed.facts is not None, "only a group whose coordinator answered is due"
        facts = Facts(
            replicas=_replicas(deployment),
            partitions=known_partitions(observed.facts, context.find_topic),
            lag=known_lag(observed.lags),
        )
        found = step(scale, facts, known.memory, self._now_ms())
        if found.replicas != facts.replicas:
            await self._write(group, deployment, found, facts.replicas)
        known.memory = found.memory
        return scaled(facts)

    async def _write(
        self, group: ConsumerGroup, deployment: Manifest, found: Step, before: int
    ) -> None:
        """Set the Deployment's number of replicas, which was `before`, and report it. Raises
        `Conflict` if the Deployment has changed since it was read, and `NotActive`."""
        if not self._authority.is_held():
            raise NotActive
        name = deployment["metadata"]["name"]
        patch = {
            "metadata": {"resourceVersion": deployment["metadata"]["resourceVersion"]},
            "spec": {"replicas": found.replicas},
        }
        await self._api.patch(
            kinds.DEPLOYMENTS,
            group.metadata.namespace,
            name,
            patch,
            field_manager=labels.OPERATOR,
            subresource="scale",
        )
        logger.info(
            "group_scaled",
            extra={
                "group": group.group_id,
                "deployment": f"{group.metadata.namespace}/{name}",
                "replicas": found.replicas,
                "before": before,
                "reason": found.why,
            },
        )
        await self._events.announce(
            Announce(
                kind=own_api.CONSUMER_GROUP.kind,
                api_version=own_api.API_VERSION,
                metadata=group.metadata,
                type=EventType.NORMAL,
                reason="Scaled",
                message=f"Deployment {name} is scaled from {before} to {found.replicas} pods: "
                f"{found.why}",
            )
        )

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


class _Autoscalers:
    """The HorizontalPodAutoscalers of namespaces, each asked for once in one pass."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._found: dict[str, list[Manifest]] = {}

    async def of(self, namespace: str) -> list[Manifest]:
        """The HorizontalPodAutoscalers of a namespace."""
        if namespace not in self._found:
            try:
                listed = await self._api.list_(kinds.AUTOSCALERS, namespace)
                self._found[namespace] = listed.items
            except NotFound:
                self._found[namespace] = []  # this cluster has no such kind
        return self._found[namespace]


@dataclass(frozen=True, slots=True)
class _Context:
    """What the scaling of all groups uses in one pass."""

    find_topic: FindTopic
    autoscalers: _Autoscalers


def _autoscaler_of(deployment: str, autoscalers: Iterable[Manifest]) -> str:
    """The name of the HorizontalPodAutoscaler that scales the Deployment; empty if none does."""
    for autoscaler in autoscalers:
        target = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == (kinds.DEPLOYMENTS.kind, deployment):
            return str(autoscaler["metadata"]["name"])
    return ""


def _replicas(deployment: Manifest) -> int:
    """The number of replicas in the Deployment's spec; Kubernetes' default of 1 if it has none."""
    replicas = (deployment.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)
