"""Scales the Deployments that ConsumerGroups name, as `chiplog_core.group_watch.scaling` decides.

A Deployment is read before it is written, and written only as it was read. While anybody else
scales it too, or anything about it is not known, it is left alone.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chiplog_core import api as own_api
from chiplog_core import labels
from chiplog_core.conditions import Verdict
from chiplog_core.group_watch.deployments import (
    autoscaled,
    forbidden,
    missing,
    rival_of,
    rivalled,
    scaled,
)
from chiplog_core.group_watch.scaling import Facts, Memory, Step, step
from chiplog_core.model.consumer_group import ConsumerGroup, Scale
from chiplog_core.planner.actions import Announce, EventType
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Conflict, Forbidden, KubeApi, Manifest, NotFound
from chiplog_operator.clock import Clock
from chiplog_operator.together import together
from chiplog_operator.writes import IN_FLIGHT, Authority, NotInCharge

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 5_000
"""So often a Deployment is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A ConsumerGroup that speaks for its group, and what its last look found."""

    group: ConsumerGroup
    lag: int | None
    """Over all partitions; None where that of any is not known."""
    partitions: int | None
    """All of the topics that it consumes; None where not known."""


@dataclass(slots=True)
class _Known:
    """What is remembered of one ConsumerGroup."""

    looked_ms: int
    memory: Memory | None = None
    verdict: Verdict | None = None


class Scaling:
    """Of one operator process. Whoever looks at the groups calls `look`, as often as it likes."""

    def __init__(
        self,
        api: KubeApi,
        *,
        clock: Clock,
        authority: Authority,
        announce: Callable[[Announce], object],
    ) -> None:
        """`announce` is told of every change."""
        self._api = api
        self._clock = clock
        self._authority = authority
        self._announce = announce
        self._known: dict[str, _Known] = {}

    async def look(
        self, subjects: Iterable[Subject], everyone: Sequence[ConsumerGroup]
    ) -> Mapping[str, Verdict]:
        """What to tell of each, by uid. `everyone`: the ConsumerGroups of all clusters.

        Raises `NotInCharge`.
        """
        subjects = list(subjects)
        now_ms = self._now_ms()
        due = [one for one in subjects if self._is_due(one.group, now_ms)]
        found = self._autoscalers()
        await together(lambda one: self._look(one, everyone, found), due, at_once=IN_FLIGHT)
        return {
            one.group.metadata.uid: known.verdict
            for one in subjects
            if one.group.spec.scale is not None
            and (known := self._known.get(one.group.metadata.uid)) is not None
            and known.verdict is not None
        }

    def forget(self, living: Iterable[str]) -> None:
        """Keep nothing but of these uids."""
        there = set(living)
        self._known = {uid: one for uid, one in self._known.items() if uid in there}

    def _is_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        uid = group.metadata.uid
        if group.spec.scale is None:
            self._known.pop(uid, None)
            return False
        known = self._known.get(uid)
        return known is None or now_ms - known.looked_ms >= INTERVAL_MS

    async def _look(
        self, subject: Subject, everyone: Sequence[ConsumerGroup], autoscalers: "_Autoscalers"
    ) -> None:
        group, now_ms = subject.group, self._now_ms()
        known = self._known.setdefault(group.metadata.uid, _Known(looked_ms=now_ms))
        known.looked_ms = now_ms
        try:
            known.verdict = await self._verdict(subject, everyone, autoscalers, known)
        except Forbidden as error:
            known.verdict = forbidden(str(error))
        except Conflict:
            pass  # somebody else wrote it meanwhile: it is read anew
        except ApiError as error:
            facts = {"group": group.group_id, "error": str(error)}
            logger.warning("group_not_scaled", extra=facts)

    async def _verdict(
        self,
        subject: Subject,
        everyone: Sequence[ConsumerGroup],
        autoscalers: "_Autoscalers",
        known: _Known,
    ) -> Verdict:
        group = subject.group
        assert group.spec.scale is not None, "only such a group is due"
        namespace, name = group.metadata.namespace, group.spec.scale.deployment_ref.name
        rival = rival_of(group, everyone)
        if rival is not None:
            known.memory = None
            return rivalled(rival, name)
        try:
            deployment = await self._api.get(kinds.DEPLOYMENTS, namespace, name)
        except NotFound:
            known.memory = None
            return missing(namespace, name)
        autoscaler = _autoscaler_of(name, await autoscalers.of(namespace))
        if autoscaler:
            known.memory = None
            return autoscaled(autoscaler, name)
        return await self._scale(subject, group.spec.scale, deployment, known)

    async def _scale(
        self, subject: Subject, scale: Scale, deployment: Manifest, known: _Known
    ) -> Verdict:
        facts = Facts(
            replicas=_replicas(deployment), partitions=subject.partitions, lag=subject.lag
        )
        found = step(scale, facts, known.memory, self._now_ms())
        if found.replicas != facts.replicas:
            await self._write(subject.group, deployment, found, facts.replicas)
        known.memory = found.memory
        return scaled(facts)

    async def _write(
        self, group: ConsumerGroup, deployment: Manifest, found: Step, before: int
    ) -> None:
        """Raises `Conflict` where it is not as it was read, and `NotInCharge`."""
        if not self._authority.is_held():
            raise NotInCharge
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
        self._announce(
            Announce(
                kind=own_api.CONSUMER_GROUP.kind,
                api_version=own_api.API_VERSION,
                metadata=group.metadata,
                type=EventType.NORMAL,
                reason="Scaled",
                message=f"Deployment {name} from {before} to {found.replicas} pods: {found.why}",
            )
        )

    def _autoscalers(self) -> "_Autoscalers":
        return _Autoscalers(self._api)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


class _Autoscalers:
    """The HorizontalPodAutoscalers of namespaces, each asked for once in a look."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._found: dict[str, list[Manifest]] = {}

    async def of(self, namespace: str) -> list[Manifest]:
        if namespace not in self._found:
            try:
                listed = await self._api.list_(kinds.AUTOSCALERS, namespace)
                self._found[namespace] = listed.items
            except NotFound:
                self._found[namespace] = []  # this cluster has no such kind
        return self._found[namespace]


def _autoscaler_of(deployment: str, autoscalers: Iterable[Manifest]) -> str:
    """The name of one that scales it; empty where none does."""
    for one in autoscalers:
        target = (one.get("spec") or {}).get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == (kinds.DEPLOYMENTS.kind, deployment):
            return str(one["metadata"]["name"])
    return ""


def _replicas(deployment: Manifest) -> int:
    """What its spec says; Kubernetes' default where it says nothing."""
    replicas = (deployment.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)
