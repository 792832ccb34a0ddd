"""Carries out what the planner decided: compare-and-set writes, the most urgent first.

Nothing is concluded from a write but what the API server answered: the answer goes into the
caches, and the next observation sees it. A Conflict is no error: somebody was first, so the
object is read anew. An answer that never came may mean anything, so it means nothing.

A plan that takes long is given up between two writes when something urgent happened meanwhile:
what was not done is planned again.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from chiplog_core import api as chiplog_api
from chiplog_core import labels
from chiplog_core.model.broker import Broker
from chiplog_core.model.metadata import Metadata
from chiplog_core.planner.actions import (
    Action,
    Announce,
    Create,
    DeleteMap,
    EventType,
    Replace,
    Report,
    RestartPod,
    SetFinalizers,
    WriteTopic,
)
from chiplog_core.planner.world import WriteResult
from chiplog_kube import kinds
from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KubeApi,
    Manifest,
    NotFound,
    Unavailable,
)
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, key_of, metadata, uid_of, version_of
from chiplog_operator.caches import Caches, ClusterKey, cluster_of
from chiplog_operator.clock import Clock
from chiplog_operator.events import event
from chiplog_operator.status_patch import status_patch
from chiplog_operator.together import together
from chiplog_operator.write_results import WriteResults

logger = logging.getLogger(__name__)

IN_FLIGHT = 16
"""More makes the API server slower, not faster."""
PATIENCE_S = 0.2
"""So long a plan is carried on although something urgent happened."""

ENDING_NAMESPACE = "because it is being terminated"
"""How the API server says that a namespace takes nothing new. It is no fault, and soon over."""

KIND_OF: dict[str, Kind] = {
    kind.kind: kind
    for kind in (
        kinds.BROKER_CLUSTERS,
        kinds.TOPICS,
        kinds.CONSUMER_GROUPS,
        kinds.BROKERS,
        kinds.PARTITION_MAPS,
    )
}


class Authority(Protocol):
    """Whether this process still is the operator in charge."""

    def is_held(self) -> bool: ...


class NotInCharge(Exception):  # noqa: N818 - named for what it says
    """Another operator may be in charge by now: nothing more is written."""


@dataclass(slots=True)
class Outcome:
    """How far a plan was carried out."""

    done: int = 0
    conflicts: int = 0
    failed: int = 0
    unavailable: bool = False
    given_up: bool = False

    @property
    def is_whole(self) -> bool:
        return not (self.conflicts or self.failed or self.unavailable or self.given_up)


class Executor:
    """Writes for one operator process; `instance` is its name in Events."""

    def __init__(
        self,
        api: KubeApi,
        caches: Caches,
        results: WriteResults,
        *,
        clock: Clock,
        authority: Authority,
        instance: str,
    ) -> None:
        self._api = api
        self._caches = caches
        self._results = results
        self._clock = clock
        self._authority = authority
        self._instance = instance

    async def execute(
        self,
        cluster: ClusterKey,
        actions: Sequence[Action],
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Do all of it, in order of urgency, at most `IN_FLIGHT` at once."""
        outcome = Outcome()
        began_s = self._clock.monotonic_s()

        async def do(action: Action) -> None:
            if is_urgent() and self._clock.monotonic_s() - began_s > PATIENCE_S:
                outcome.given_up = True
            if not (outcome.unavailable or outcome.given_up):
                await self._try(cluster, action, outcome)

        in_order = sorted(actions, key=_rank)
        await together(do, in_order, at_once=IN_FLIGHT)
        return outcome

    async def announce(self, announce: Announce) -> None:
        """Make an Event; that one cannot be made stops nothing."""
        try:
            await self._create_event(announce)
        except ApiError as error:
            facts = {"reason": announce.reason, "error": str(error)}
            level = logging.DEBUG if ENDING_NAMESPACE in str(error) else logging.WARNING
            logger.log(level, "event_not_made", extra=facts)

    async def _try(self, cluster: ClusterKey, action: Action, outcome: Outcome) -> None:
        if not self._authority.is_held():
            raise NotInCharge
        facts = {"cluster": str(cluster), "action": type(action).__name__, **_about(action)}
        try:
            await self._do(cluster, action)
            outcome.done += 1
            logger.debug("done", extra=facts)
        except (Conflict, NotFound) as error:
            outcome.conflicts += 1
            logger.info("outdated", extra={**facts, "error": str(error)})
            await self._look_again(action)
        except Unavailable as error:
            outcome.unavailable = True
            logger.warning("unavailable", extra={**facts, "error": str(error)})
        except ApiError as error:
            outcome.failed += 1
            level = logging.INFO if ENDING_NAMESPACE in str(error) else logging.ERROR
            logger.log(
                level, "refused", extra={**facts, "error": f"{type(error).__name__}: {error}"}
            )

    async def _do(self, cluster: ClusterKey, action: Action) -> None:
        match action:
            case Create():
                await self._create(action)
            case Replace():
                await self._replace(cluster, action)
            case DeleteMap():
                await self._delete_map(action)
            case SetFinalizers():
                await self._set_finalizers(action)
            case Report():
                await self._report(action)
            case Announce():
                await self._create_event(action)
            case RestartPod():
                await self._restart(cluster, action)
            case WriteTopic():
                await self._write_topic(cluster, action)

    async def _create(self, action: Create) -> None:
        kind = KIND_OF[action.resource.KIND.kind]
        manifest = action.resource.to_manifest()
        try:
            made = await self._api.create(kind, manifest, field_manager=labels.OPERATOR)
        except AlreadyExists:
            about = action.resource.metadata
            await self._read(kind, about.namespace, about.name)
        else:
            self._caches[kind].put(made)

    async def _replace(self, cluster: ClusterKey, action: Replace) -> None:
        if action.deleted_topic is not None:
            await self._confirm_deletion(cluster, action.deleted_topic)
        if isinstance(action.resource, Broker) and action.resource.spec.retired:
            await self._confirm_maps(cluster)
        kind = KIND_OF[action.resource.KIND.kind]
        manifest = action.resource.to_manifest()
        manifest.pop("status", None)  # the broker's own, and not written here
        self._caches[kind].put(
            await self._api.replace(kind, manifest, field_manager=labels.OPERATOR)
        )

    async def _confirm_deletion(self, cluster: ClusterKey, topic: Metadata) -> None:
        """Data goes by what follows: be sure, now, that a user wants this very Topic deleted, as
        it was when that was decided, and that nothing larger goes and takes it along."""
        found = await self._read(kinds.TOPICS, topic.namespace, topic.name)
        if uid_of(found) != topic.uid or "deletionTimestamp" not in metadata(found):
            raise Conflict(f"Topic {topic.namespace}/{topic.name} is not being deleted")
        if version_of(found) != topic.resource_version:
            # Its deletionPolicy may be another by now.
            raise Conflict(f"Topic {topic.namespace}/{topic.name} was changed meanwhile")
        owner = await self._read(kinds.BROKER_CLUSTERS, cluster.namespace, cluster.name)
        larger = [
            (kinds.BROKER_CLUSTERS, cluster.name, owner),
            *[
                (kind, name, await self._api.get(kind, "", name))
                for kind, name in (
                    (kinds.DEFINITIONS, chiplog_api.TOPIC.definition_name),
                    (kinds.NAMESPACES, topic.namespace),
                )
            ],
        ]
        for kind, name, manifest in larger:
            if "deletionTimestamp" in metadata(manifest):
                raise Conflict(f"{kind.kind} {name} is being deleted, and its Topics with it")

    async def _confirm_maps(self, cluster: ClusterKey) -> None:
        """A broker is retired for good, because no map names it: be sure that none does now."""
        cache = self._caches[kinds.PARTITION_MAPS]

        def known() -> dict[ObjectKey, str]:
            members = self._caches.members(kinds.PARTITION_MAPS, cluster)
            return {key_of(one): version_of(one) for one in members}

        decided_from, since = known(), cache.now()
        listed = await self._api.list_(kinds.PARTITION_MAPS, cluster.namespace)
        cache.replace(listed, cluster.namespace, since=since)
        if known() != decided_from:
            raise Conflict("PartitionMaps changed while a broker was to be retired")

    async def _delete_map(self, action: DeleteMap) -> None:
        about = action.resource.metadata
        await self._api.delete(
            kinds.PARTITION_MAPS,
            about.namespace,
            about.name,
            uid=about.uid,
            resource_version=about.resource_version,
        )
        # Somebody's finalizer may keep it: only what is seen to be gone is gone.
        await self._look_again(action)

    async def _set_finalizers(self, action: SetFinalizers) -> None:
        about = action.metadata
        identity = {"uid": about.uid, "resourceVersion": about.resource_version}
        patch = {"metadata": {**identity, "finalizers": list(action.finalizers)}}
        made = await self._api.patch(
            kinds.TOPICS, about.namespace, about.name, patch, field_manager=labels.OPERATOR
        )
        self._take(kinds.TOPICS, made)

    async def _report(self, action: Report) -> None:
        kind, about = KIND_OF[action.kind.kind], action.metadata
        cached = self._caches[kind].get(about.namespace, about.name) or {}
        patch = status_patch(action, cached.get("status") or {})
        if patch is None:
            return
        made = await self._api.patch(
            kind,
            about.namespace,
            about.name,
            patch,
            field_manager=labels.OPERATOR,
            subresource="status",
        )
        self._take(kind, made)

    async def _create_event(self, announce: Announce) -> None:
        manifest = event(announce, self._clock.now(), self._instance)
        await self._api.create(kinds.EVENTS, manifest, field_manager=labels.OPERATOR)

    async def _restart(self, cluster: ClusterKey, action: RestartPod) -> None:
        await self._api.delete(kinds.PODS, cluster.namespace, action.pod_name, uid=action.pod_uid)
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
                message=f"The operator restarts broker {action.broker_id}",
            )
        )

    async def _write_topic(self, cluster: ClusterKey, action: WriteTopic) -> None:
        result = await self._written(cluster, action)
        if result is not None:
            self._results.add(cluster, action.request_id, result)

    async def _written(self, cluster: ClusterKey, action: WriteTopic) -> WriteResult | None:
        """The API server's last word on a write for an admin client; None where it has none."""
        try:
            made = await self._send_topic(action)
        except AlreadyExists:
            about = action.metadata
            made = await self._read(kinds.TOPICS, about.namespace, about.name)
            if cluster_of(kinds.TOPICS, made) == cluster:
                return None
            message = f"the Topic object {about.namespace}/{about.name} is another cluster's"
            return WriteResult(accepted=False, message=message)
        except (Invalid, Forbidden) as error:
            return WriteResult(accepted=False, message=str(error))
        if made is not None and not action.dry_run:
            self._take(kinds.TOPICS, made)
        return WriteResult(accepted=True)

    async def _send_topic(self, action: WriteTopic) -> Manifest | None:
        about = action.metadata
        if action.create is not None:
            return await self._api.create(
                kinds.TOPICS,
                dict(action.create),
                field_manager=labels.KAFKA_ADMIN,
                dry_run=action.dry_run,
            )
        if action.patch is not None:
            identity = {"uid": about.uid, "resourceVersion": about.resource_version}
            given = dict(action.patch)
            patched = given.get("metadata")
            mine = patched if isinstance(patched, dict) else {}
            return await self._api.patch(
                kinds.TOPICS,
                about.namespace,
                about.name,
                {**given, "metadata": {**mine, **identity}},
                field_manager=labels.KAFKA_ADMIN,
                dry_run=action.dry_run,
            )
        assert action.delete, "a write of nothing"
        if not action.dry_run:
            await self._api.delete(
                kinds.TOPICS,
                about.namespace,
                about.name,
                uid=about.uid,
                resource_version=about.resource_version,
            )
        return None

    def _take(self, kind: Kind, made: Manifest, *, since: int | None = None) -> None:
        """The answer to a write. What was deleted and has no finalizer any more is gone."""
        meta = metadata(made)
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self._caches[kind].remove(made)
        else:
            self._caches[kind].put(made, since=since)

    async def _read(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """What there is now, whatever the watch says; the cache knows it from here on."""
        cache = self._caches[kind]
        since = cache.now()
        try:
            found = await self._api.get(kind, namespace, name)
        except NotFound:
            known = cache.get(namespace, name)
            if known is not None:
                cache.remove(known)
            raise
        self._take(kind, found, since=since)
        return found

    async def _look_again(self, action: Action) -> None:
        """Somebody was first: see what is there now, whatever the watch says."""
        found = _target(action)
        if found is None:
            return
        kind, about = found
        # Where that fails, the next plan meets the same conflict, and looks again.
        with suppress(ApiError):
            await self._read(kind, about.namespace, about.name)


def _rank(action: Action) -> tuple[int, int]:
    match action:
        case Replace():
            return (0, -action.weight)
        case Create() | SetFinalizers() | WriteTopic() | DeleteMap() | RestartPod():
            return (1, 0)
        case Announce() | Report():
            return (2, 0)


def _target(action: Action) -> tuple[Kind, Metadata] | None:
    """The object an action writes, where it is one that is cached."""
    match action:
        case Create() | Replace() | DeleteMap():
            return KIND_OF[action.resource.KIND.kind], action.resource.metadata
        case SetFinalizers() | WriteTopic():
            return kinds.TOPICS, action.metadata
        case Report():
            return KIND_OF[action.kind.kind], action.metadata
        case Announce() | RestartPod():
            return None


def _about(action: Action) -> dict[str, str]:
    match action:
        case Announce():
            return {"reason": action.reason, "object": action.metadata.name}
        case RestartPod():
            return {"object": action.pod_name}
        case _:
            target = _target(action)
            return {"object": target[1].name} if target else {}
