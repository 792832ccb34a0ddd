"""Carries out what the planner decided: compare-and-set writes, the most urgent first.

Nothing is concluded from a write but what the API server answered: the answer goes into the
caches, and the next observation sees it. A Conflict is no error: somebody was first, so the
object is read again. An answer that never came may mean anything, so it means nothing.

The planner's word is not enough for a PartitionMap: every one is checked before it is written
(`chiplog_core.validate.partition_map`), and one that breaks a rule is not.

A plan that takes long is given up between two writes when something urgent happened in the
meantime: what was not done is planned again.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from chiplog_core.model.actions import (
    Action,
    Announce,
    Create,
    DeleteClaim,
    DeleteGroup,
    DeleteMap,
    EventType,
    RebuildVolume,
    Replace,
    Report,
    RequestRestarts,
    RestartPod,
    SetMetadata,
    WriteTopic,
    WriteUser,
)
from chiplog_core.model.annotations import MANUAL_ROLLING_UPDATE
from chiplog_core.model.broker import Broker
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.naming import labels, taken_names
from chiplog_core.naming.api import BROKER_CLUSTER
from chiplog_core.validate.partition_map import broken_rules
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, ApiError, Conflict, KubeApi, NotFound, Unavailable
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import DECIDED_KINDS, Caches, ClusterKey, cluster_of
from chiplog_operator.client_writes import ClientsCredentials, write_topic, write_user
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.confirm import confirm_deletion, confirm_maps, confirm_pods
from chiplog_operator.event_recorder import EventRecorder, ExecutedPlan
from chiplog_operator.events import event
from chiplog_operator.maps_checks import MapsChecks
from chiplog_operator.status_patch import status_patch
from chiplog_operator.targets import KIND_OF, facts_of, rank_of, target_of
from chiplog_operator.volumes import Volumes
from chiplog_operator.write_results import WriteResults
from chiplog_operator.writes import (
    ENDING_NAMESPACE,
    IN_FLIGHT,
    Authority,
    NameTaken,
    NotActive,
    UnsoundMap,
    same_version,
)

logger = logging.getLogger(__name__)

PATIENCE_S = 0.2
"""For this long a plan is carried on although something urgent happened."""
EVENT_WITHIN_S = 1.0
EVENTS_PAUSE_S = 60.0
"""For this long no Event is made after one that took longer than that: elections wait behind
them."""


class Urgency(Protocol):
    """Whether something happened that cannot wait for the whole of a plan."""

    @property
    def is_urgent(self) -> bool: ...


class ActionMeter(Protocol):
    """Counts actions."""

    def acted(self, cluster: ClusterKey, action: Action) -> None:
        """Count an action that was carried out."""

    def map_refused(self, cluster: ClusterKey) -> None:
        """Count a PartitionMap that was not written, because it breaks a rule."""


@dataclass(slots=True)
class Outcome:
    """How far a plan was carried out."""

    done: int = 0
    conflicts: int = 0
    failed: int = 0
    unavailable: bool = False
    given_up: bool = False
    without_event: int = 0
    """Number of writes for admin clients that cause no watch event: dry runs and refusals."""
    problems: list[str] = field(default_factory=list)
    """Refusals that only a user can correct, in words."""
    refused_maps: list[str] = field(default_factory=list)
    """PartitionMaps that were not written because they break a rule, in words."""

    @property
    def is_complete(self) -> bool:
        """Whether every action was carried out."""
        return not (self.conflicts or self.failed or self.unavailable or self.given_up)


class Executor:
    """Writes for one operator process; `instance` is its name in Events."""

    def __init__(  # noqa: PLR0913 - its ports
        self,
        api: KubeApi,
        caches: Caches,
        results: WriteResults,
        *,
        checks: MapsChecks,
        clock: Clock,
        authority: Authority,
        instance: str,
        meter: ActionMeter,
        credentials: ClientsCredentials | None = None,
    ) -> None:
        """`credentials` are for users whose passwords clients set; without it none are written."""
        self._api = api
        self._meter = meter
        self._credentials = credentials
        self._caches = caches
        self._cached_api = CachedApi(api, caches, checks)
        self._results = results
        self._clock = clock
        self._authority = authority
        self._instance = instance
        self._events_again_s = float("-inf")
        self._event_recorder = EventRecorder(caches, clock, self)
        self._volumes = Volumes(self._cached_api)

    async def execute(
        self,
        cluster: ClusterKey,
        actions: Sequence[Action],
        urgency: Urgency | None = None,
    ) -> Outcome:
        """Carry out the actions, the most urgent first, at most `IN_FLIGHT` at the same time.

        `urgency` reports whether something more urgent happened, for which the rest of the plan is
        given up.
        """
        outcome, executed = Outcome(), ExecutedPlan(cluster)
        began_s = self._clock.monotonic_s()

        async def do(action: Action) -> None:
            # Only a plan that takes longer than `PATIENCE_S` is given up.
            is_urgent = urgency is not None and urgency.is_urgent
            if is_urgent and self._clock.monotonic_s() - began_s > PATIENCE_S:
                outcome.given_up = True
            if not (outcome.unavailable or outcome.given_up):
                await self._try(executed, action, outcome)

        in_order = sorted(actions, key=rank_of)
        await run_concurrently(do, in_order, max_concurrent=IN_FLIGHT)
        await self._event_recorder.record(executed)
        return outcome

    async def announce(self, announce: Announce) -> None:
        """Create an Event. A failure stops nothing, and the call does not wait long: Events may
        be stored elsewhere than other objects, in a store that is slow or not available."""
        if self._clock.monotonic_s() < self._events_again_s:
            logger.debug("event_left_out", extra={"reason": announce.reason})
            return
        try:
            async with asyncio.timeout(EVENT_WITHIN_S):
                await self._create_event(announce)
        except TimeoutError:
            self._events_again_s = self._clock.monotonic_s() + EVENTS_PAUSE_S
            limits = {"within_s": EVENT_WITHIN_S, "none_for_s": EVENTS_PAUSE_S}
            logger.warning("event_took_too_long", extra=limits)
        except ApiError as error:
            facts = {"reason": announce.reason, "error": str(error)}
            level = logging.DEBUG if ENDING_NAMESPACE in str(error) else logging.WARNING
            logger.log(level, "event_not_made", extra=facts)

    async def _try(self, executed: ExecutedPlan, action: Action, outcome: Outcome) -> None:
        """Carry out one action, and record in the outcome whether it succeeded. Raises only
        `NotActive`."""
        cluster = executed.cluster
        if not self._authority.is_held():
            raise NotActive
        facts = {"cluster": str(cluster), "action": type(action).__name__, **facts_of(action)}
        try:
            await self._do(executed, action, outcome)
            outcome.done += 1
            self._meter.acted(cluster, action)
            logger.debug("done", extra=facts)
        except UnsoundMap as error:
            outcome.failed += 1
            outcome.refused_maps.append(str(error))
            self._meter.map_refused(cluster)
            logger.critical("map_write_refused", extra={**facts, "rules": error.rules})
        except (Conflict, NotFound) as error:
            outcome.conflicts += 1
            logger.debug("outdated", extra={**facts, "error": str(error)})
            await self._read_again(action)
        except Unavailable as error:
            outcome.unavailable = True
            logger.warning("unavailable", extra={**facts, "error": str(error)})
        except ApiError as error:
            outcome.failed += 1
            if isinstance(error, NameTaken):
                outcome.problems.append(str(error))
            level = logging.INFO if ENDING_NAMESPACE in str(error) else logging.ERROR
            logger.log(
                level, "refused", extra={**facts, "error": f"{type(error).__name__}: {error}"}
            )

    async def _do(self, executed: ExecutedPlan, action: Action, outcome: Outcome) -> None:
        """Carry out one action. Raises `ApiError`s and `UnsoundMap`."""
        cluster = executed.cluster
        match action:
            case Create():
                await self._create(executed, action)
            case Replace():
                await self._replace(executed, action)
            case DeleteMap():
                await self._delete_map(executed, action)
            case DeleteGroup():
                await self._delete_group(action)
            case SetMetadata():
                await self._set_metadata(action)
            case Report():
                await self._report(executed, action)
            case Announce():
                await self.announce(action)
            case RestartPod() | RequestRestarts() | RebuildVolume() | DeleteClaim():
                await self._change_pods(cluster, action)
            case WriteTopic() | WriteUser():
                outcome.without_event += await self._write_for_client(cluster, action)

    async def _create(self, executed: ExecutedPlan, action: Create) -> None:
        """Create an object. One that exists already is read into the cache. Raises `NameTaken` if
        that belongs to another cluster."""
        if isinstance(action.resource, PartitionMap):
            check_map_rules(None, action.resource)
        kind = KIND_OF[action.resource.KIND.kind]
        manifest = action.resource.to_manifest()
        try:
            created = await self._api.create(kind, manifest, field_manager=labels.OPERATOR)
        except AlreadyExists:
            meta = action.resource.metadata
            found = await self._cached_api.read(kind, meta.namespace, meta.name)
            owner = cluster_of(kind, found)
            if kind in DECIDED_KINDS and owner != executed.cluster:
                why = f"it belongs to BrokerCluster {owner}"
                message = taken_names.taken_message(kind.kind, meta.name, BROKER_CLUSTER.kind, why)
                raise NameTaken(message) from None
        else:
            self._caches[kind].put(created)
            executed.did(action)

    async def _replace(self, executed: ExecutedPlan, action: Replace) -> None:
        """Replace the spec of a Broker or PartitionMap. Before a step that cannot be undone, its
        reasons are read again; raises `Conflict` if they have changed."""
        if isinstance(action.resource, PartitionMap):
            check_map_rules(action.before, action.resource)
        if action.deleted_topic is not None:
            await confirm_deletion(self._cached_api, executed.cluster, action.deleted_topic)
        if isinstance(action.resource, Broker) and action.resource.spec.retired:
            await confirm_maps(self._cached_api, executed.cluster)
        kind = KIND_OF[action.resource.KIND.kind]
        manifest = action.resource.to_manifest()
        manifest.pop("status", None)  # the broker writes its own status
        self._caches[kind].put(
            await self._api.replace(kind, manifest, field_manager=labels.OPERATOR)
        )
        executed.did(action)

    async def _delete_map(self, executed: ExecutedPlan, action: DeleteMap) -> None:
        """Delete a PartitionMap."""
        meta = action.resource.metadata
        await self._api.delete(
            kinds.PARTITION_MAPS,
            meta.namespace,
            meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        executed.did(action)
        # A finalizer of somebody else may keep the object, so read whether it is gone.
        await self._read_again(action)

    async def _delete_group(self, action: DeleteGroup) -> None:
        """Delete a ConsumerGroup, if it is still the version that was observed."""
        meta = action.metadata
        await self._api.delete(
            kinds.CONSUMER_GROUPS,
            meta.namespace,
            meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        await self._read_again(action)

    async def _set_metadata(self, action: SetMetadata) -> None:
        """Change finalizers, labels and annotations of an object, if it is still the version that
        was observed."""
        kind, meta = KIND_OF[action.kind.kind], action.metadata
        changed: dict[str, object] = {}
        if action.removed_annotations:
            changed["annotations"] = dict.fromkeys(action.removed_annotations)
        if action.finalizers is not None:
            changed["finalizers"] = list(action.finalizers)
        if action.labels:
            changed["labels"] = dict(action.labels)
        patch = {"metadata": {**same_version(meta), **changed}}
        patched = await self._api.patch(
            kind, meta.namespace, meta.name, patch, field_manager=labels.OPERATOR
        )
        self._cached_api.take(kind, patched)

    async def _report(self, executed: ExecutedPlan, action: Report) -> None:
        """Write a status, if it differs from the cached one."""
        kind, meta = KIND_OF[action.kind.kind], action.metadata
        before = (self._caches[kind].get(meta.namespace, meta.name) or {}).get("status") or {}
        patch = status_patch(action, before)
        if patch is None:
            return
        patched = await self._api.patch(
            kind,
            meta.namespace,
            meta.name,
            patch,
            field_manager=labels.OPERATOR,
            subresource="status",
        )
        self._cached_api.take(kind, patched)
        executed.reported(action, before)

    async def _create_event(self, announce: Announce) -> None:
        """Send the Event to the API server. Raises `ApiError`s."""
        manifest = event(announce, self._clock.now(), self._instance)
        await self._api.create(kinds.EVENTS, manifest, field_manager=labels.OPERATOR)

    async def _change_pods(
        self,
        cluster: ClusterKey,
        action: RestartPod | RequestRestarts | RebuildVolume | DeleteClaim,
    ) -> None:
        """Restart a broker, request the restarts of several, or delete a volume claim, with its pod
        if it has one."""
        match action:
            case RestartPod():
                await self._restart_pod(cluster, action)
            case RequestRestarts():
                for stateful_set in action.stateful_sets:
                    await self._annotate(cluster, stateful_set, MANUAL_ROLLING_UPDATE.is_set_by)
            case RebuildVolume():
                await self.announce(await self._volumes.rebuild(cluster, action))
            case DeleteClaim():
                await self.announce(await self._volumes.delete_of_retired(cluster, action))

    async def _restart_pod(self, cluster: ClusterKey, action: RestartPod) -> None:
        """Delete a pod, so that its StatefulSet creates it again, and report why. Raises `Conflict`
        if another broker is down that was up when the restart was planned."""
        await confirm_pods(self._cached_api, cluster, action.must_be_ready)
        await self._api.delete(kinds.PODS, cluster.namespace, action.pod_name, uid=action.pod_uid)
        if action.requested_by:
            await self._annotate(cluster, action.requested_by, None)
        facts = {"cluster": str(cluster), "pod": action.pod_name, "reason": action.reason}
        logger.info("pod_restarted", extra=facts)
        await self.announce(
            Announce(
                kind=kinds.PODS.kind,
                api_version=kinds.PODS.api_version,
                metadata=Metadata(
                    name=action.pod_name, namespace=cluster.namespace, uid=action.pod_uid
                ),
                type=EventType.NORMAL,
                reason=action.reason,
                message=action.message or f"The operator restarts broker {action.broker_id}",
            )
        )

    async def _annotate(self, cluster: ClusterKey, stateful_set: str, value: str | None) -> None:
        """Set or, with None, remove the annotation that requests a restart. It is removed after
        each, so that it causes just one."""
        patch = {"metadata": {"annotations": {labels.MANUAL_ROLLING_UPDATE: value}}}
        patched = await self._api.patch(
            kinds.STATEFUL_SETS,
            cluster.namespace,
            stateful_set,
            patch,
            field_manager=labels.OPERATOR,
        )
        self._cached_api.take(kinds.STATEFUL_SETS, patched)

    async def _write_for_client(self, cluster: ClusterKey, action: WriteTopic | WriteUser) -> bool:
        """Write an object for an admin client, and keep the result for the next plan. Returns
        whether that plan must be woken: a dry run or a refusal causes no watch event, and events of
        Users wake nobody but the loop of the users."""
        if isinstance(action, WriteUser):
            await self._write_user(cluster, action)
            return True
        result = await write_topic(self._cached_api, cluster, action)
        if result is not None:
            self._results.add(cluster, action.request_id, result)
        return result is not None and (action.dry_run or not result.accepted)

    async def _write_user(self, cluster: ClusterKey, action: WriteUser) -> None:
        """Write a User for an admin client, and keep the result for the next plan."""
        assert self._credentials is not None, "requests about users need it"
        result = await write_user(self._cached_api, cluster, action, self._credentials)
        if result is not None:
            self._results.add(cluster, action.request_id, result)
            facts = {
                "cluster": str(cluster),
                "user": action.metadata.name,
                "accepted": result.accepted,
            }
            logger.info("user_written_for_client", extra=facts)

    async def _read_again(self, action: Action) -> None:
        """Read the object that an action writes into the cache, because the cached one may be
        outdated and a watch event may come late."""
        found = target_of(action)
        if found is None:
            return
        kind, meta = found
        # If that fails, the next plan meets the same conflict, and the object is read again.
        with suppress(ApiError):
            await self._cached_api.read(kind, meta.namespace, meta.name)


def check_map_rules(before: PartitionMap | None, after: PartitionMap) -> None:
    """Check the rules for PartitionMaps. Raises `UnsoundMap` if writing `after` breaks one.
    `before` is the map that it replaces; None if it is created."""
    if rules := broken_rules(before, after):
        raise UnsoundMap(after.spec.topic_name, rules)
