"""From the caches to a `World`: everything the planner may know of one cluster, at one moment.

Objects are read (checked and turned into values) once per version. Where something would be
concluded from absence, it is asked for again first, consistently: a watch may have missed it.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from chiplog_core.ids import BrokerId
from chiplog_core.manifest.writing import write
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.model.resource import Resource
from chiplog_core.model.topic import Topic
from chiplog_core.model.user import User
from chiplog_core.naming import names
from chiplog_core.naming.api import CONSUMER_GROUP, TOPIC, USER, ResourceKind
from chiplog_core.observed.processes import Identity, identity
from chiplog_core.observed.report_requests import Watch
from chiplog_core.observed.volumes import too_small
from chiplog_core.observed.world import (
    ClaimState,
    NodeState,
    PodState,
    Question,
    StatefulSetState,
    Unreadable,
    World,
)
from chiplog_core.problems import Problem, Reason
from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, KubeApi, Manifest, NotFound
from chiplog_kube.manifests import key_of, metadata, uid_of
from chiplog_operator import views
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.liveness import Liveness
from chiplog_operator.maps_checks import MapsChecks
from chiplog_operator.parsed import Parsed, metadata_of
from chiplog_operator.write_results import WriteResults

logger = logging.getLogger(__name__)
R = TypeVar("R", bound=Resource)
CLASSES_AGAIN_S = 10.0
"""This often a StorageClass is asked for while a claim is too small: somebody may change it."""


class Lists(Protocol):
    """Consistent lists of what users write, into the caches."""

    def is_complete(self, namespaces: Collection[str]) -> bool:
        """Whether every kind was listed since the start, in these namespaces or in all (`*`)."""

    async def list_topics(self) -> None:
        """List all Topics again. Raises `ApiError`s."""


@dataclass(slots=True)
class _Checked:
    """What was confirmed about one cluster, so that it is asked once."""

    owners: frozenset[str] = frozenset()
    """Uids of Topics that own maps and are confirmed to be gone."""
    topics_unknown: bool = False
    """Whether Topics that own maps are not cached, and Topics cannot be listed to confirm that they
    are gone."""
    is_deleting: bool = False
    """Whether Topics are being deleted. Only then `definition_deleting` and
    `namespaces_deleting` are current."""
    definition_deleting: bool = False
    namespaces_deleting: frozenset[str] = field(default_factory=frozenset)
    rigid_classes: frozenset[str] = frozenset()
    """StorageClasses that do not expand volumes, of claims that are too small."""
    classes_asked_s: float = float("-inf")


class Observer:
    """Makes `World`s of the caches."""

    def __init__(  # noqa: PLR0913 - what it observes
        self,
        api: KubeApi,
        caches: Caches,
        lists: Lists,
        liveness: Liveness,
        results: WriteResults,
        *,
        checks: MapsChecks,
        clock: Clock,
        namespaces: Collection[str] = (),
    ) -> None:
        """`namespaces` are the watched ones; empty if all are watched."""
        self._api = api
        self._namespaces = frozenset(namespaces)
        self._caches = caches
        self._lists = lists
        self._liveness = liveness
        self._results = results
        self._checks = checks
        self._clock = clock
        self._questions: dict[ClusterKey, Watch] = {}
        self._clusters = Parsed(BrokerCluster)
        self._topics = Parsed(Topic)
        self._groups = Parsed(ConsumerGroup)
        self._users = Parsed(User)
        self._brokers = Parsed(Broker)
        self._maps = Parsed(PartitionMap)
        self._rebalances = Parsed(Rebalance)
        self._nodes: dict[str, tuple[Manifest, NodeState]] = {}
        self._checked: dict[ClusterKey, _Checked] = {}
        self._logged_unreadable: dict[ClusterKey, dict[str, str]] = {}

    async def observe(self, key: ClusterKey, revisions: Mapping[BrokerId, str]) -> World:
        """The cluster now. What the caches lack is read from the API server before it counts as
        deleted. `revisions` has the revision of each broker's pod. Raises `ApiError`s."""
        if not self.is_known(key.namespace):
            raise Forbidden(
                f"namespace {key.namespace} has not been listed since the operator started: "
                "check that the operator may list its objects"
            )
        checked = self._checked.setdefault(key, _Checked())
        await self._confirm_absence(key)
        await self._confirm_owners(key, checked)
        await self._confirm_deletions(key, checked)
        await self._find_rigid_classes(key, checked)
        return self._world(key, revisions, checked)

    def is_known(self, namespace: str) -> bool:
        """Whether all objects of a namespace were listed since the operator's start. Nothing is
        decided before."""
        return self._lists.is_complete({namespace})

    def from_caches(self, key: ClusterKey) -> World:
        """The cluster from caches only, for callers that conclude nothing from an absent object."""
        return self._world(key, {}, self._checked.get(key, _Checked()))

    def processes(self, key: ClusterKey) -> list[Identity]:
        """The admitted processes and their addresses, by broker id."""
        brokers, _ = self._readable_brokers(key)
        pods = self._pods(key)
        found = (identity(broker, pods.get(broker_id)) for broker_id, broker in brokers.items())
        return sorted(process for process in found if process is not None)

    def metadata(self, key: ClusterKey) -> Metadata:
        """The metadata of the BrokerCluster, without a uid if it does not exist."""
        manifest = self._caches[kinds.BROKER_CLUSTERS].get(key.namespace, key.name)
        return metadata_of(manifest) if manifest is not None else _absent(key)

    def groups(self, key: ClusterKey) -> tuple[ConsumerGroup, ...]:
        """The ConsumerGroups that name the cluster and can be parsed."""
        found = map(self._groups.read, self._caches.members(kinds.CONSUMER_GROUPS, key))
        return tuple(group for group in found if isinstance(group, ConsumerGroup))

    def users(self, key: ClusterKey) -> tuple[tuple[User, ...], tuple[Unreadable, ...]]:
        """The Users that name the cluster, and those of them that cannot be parsed."""
        self._users.sweep(self._caches[kinds.USERS].objects)
        members = self._caches.members(kinds.USERS, key)
        return _parsed_and_unreadable(self._users, members, key.name, USER)

    def brokers(self, key: ClusterKey) -> tuple[Mapping[BrokerId, Broker], Collection[str]]:
        """The brokers of the cluster, and the names of Broker objects that cannot be parsed."""
        return self._readable_brokers(key)

    def rebalances(self, key: ClusterKey) -> tuple[Rebalance, ...]:
        """The Rebalances that name the cluster and can be parsed."""
        found = map(self._rebalances.read, self._caches.members(kinds.REBALANCES, key))
        return tuple(rebalance for rebalance in found if isinstance(rebalance, Rebalance))

    def maps(self, key: ClusterKey) -> Mapping[str, PartitionMap] | None:
        """All maps of the cluster by topic name; None if one cannot be parsed."""
        maps, unreadable = self._readable_maps(key)
        return None if unreadable else maps

    def partition_map(self, key: ClusterKey, topic_name: str) -> PartitionMap | None:
        """The map of a topic; None if there is none that can be parsed."""
        name = names.partition_map(key.name, topic_name)
        manifest = self._caches[kinds.PARTITION_MAPS].get(key.namespace, name)
        found = self._maps.read(manifest) if manifest is not None else None
        is_for_topic = isinstance(found, PartitionMap) and found.spec.topic_name == topic_name
        return found if is_for_topic and isinstance(found, PartitionMap) else None

    def cluster(self, key: ClusterKey) -> BrokerCluster | None:
        """The BrokerCluster; None if there is none that can be parsed."""
        manifest = self._caches[kinds.BROKER_CLUSTERS].get(key.namespace, key.name)
        found = self._clusters.read(manifest) if manifest is not None else None
        return found if isinstance(found, BrokerCluster) else None

    async def _confirm_absence(self, key: ClusterKey) -> None:
        """If the BrokerCluster is not in the cache, read it from the API server: if it is really
        gone, the finalizers of its Topics are removed.

        A cluster in a namespace that is not watched belongs to another operator, if to any.
        """
        if self._namespaces and key.namespace not in self._namespaces:
            return
        clusters = self._caches[kinds.BROKER_CLUSTERS]
        if clusters.get(key.namespace, key.name) is None:
            since = clusters.now()
            with suppress(NotFound):
                found = await self._api.get(kinds.BROKER_CLUSTERS, key.namespace, key.name)
                clusters.put(found, since=since)

    async def _confirm_owners(self, key: ClusterKey, checked: _Checked) -> None:
        """If the Topic of a map is not in the cache, list Topics before it counts as deleted.

        If the CRD is gone, or a namespace must not be read any more, the list fails and nothing
        counts as deleted. Brokers are still admitted and leaders elected.
        """
        missing = self._missing_owners(key)
        checked.topics_unknown = False
        if missing - checked.owners:
            try:
                await self._lists.list_topics()
            except (NotFound, Forbidden):
                checked.topics_unknown = True
                return
            missing = self._missing_owners(key)
        checked.owners = missing

    def _missing_owners(self, key: ClusterKey) -> frozenset[str]:
        """The uids of Topics that own maps of the cluster and are not in the cache."""
        existing_uids = {uid_of(topic) for topic in self._caches.members(kinds.TOPICS, key)}
        owners = {
            (manifest.get("spec") or {}).get("ownerUID")
            for manifest in self._caches.members(kinds.PARTITION_MAPS, key)
        }
        return frozenset(owner for owner in owners if owner and owner not in existing_uids)

    async def _confirm_deletions(self, key: ClusterKey, checked: _Checked) -> None:
        """Find out whether deleted Topics are deleted by a user, or together with their CRD or
        namespace.

        It is asked in every pass while there are such Topics, because the namespace may be deleted
        after a Topic.
        """
        deleting = {
            uid_of(topic): key_of(topic).namespace
            for topic in self._caches.members(kinds.TOPICS, key)
            if "deletionTimestamp" in metadata(topic)
        }
        if deleting:
            checked.definition_deleting = await self._definition_deleting()
            checked.namespaces_deleting = frozenset(
                [name for name in sorted(set(deleting.values())) if await self._is_ending(name)]
            )
        checked.is_deleting = bool(deleting)

    async def _find_rigid_classes(self, key: ClusterKey, checked: _Checked) -> None:
        """If volume claims are smaller than in the spec, find out which of their StorageClasses do
        not allow expansion, at most every `CLASSES_AGAIN_S`."""
        cluster = self.cluster(key)
        small_claims = too_small(self._claims(key).values(), cluster) if cluster is not None else ()
        classes = sorted({claim.storage_class for claim in small_claims if claim.storage_class})
        now_s = self._clock.monotonic_s()
        if not classes:
            checked.rigid_classes, checked.classes_asked_s = frozenset(), float("-inf")
        elif now_s - checked.classes_asked_s >= CLASSES_AGAIN_S:
            checked.classes_asked_s = now_s
            checked.rigid_classes = frozenset(
                [name for name in classes if await self._is_rigid(name)]
            )

    async def _is_rigid(self, storage_class: str) -> bool:
        """Whether a StorageClass does not allow expansion. One that is gone or must not be read
        may allow it."""
        try:
            found = await self._api.get(kinds.STORAGE_CLASSES, "", storage_class)
        except (NotFound, Forbidden):
            return False
        return found.get("allowVolumeExpansion") is not True

    async def _definition_deleting(self) -> bool:
        """Whether the CRD of Topics is gone or being deleted."""
        try:
            definition = await self._api.get(kinds.DEFINITIONS, "", TOPIC.definition_name)
        except NotFound:
            return True
        return "deletionTimestamp" in metadata(definition)

    async def _is_ending(self, namespace: str) -> bool:
        """Whether the namespace is gone or being deleted."""
        try:
            found = await self._api.get(kinds.NAMESPACES, "", namespace)
        except NotFound:
            return True
        return "deletionTimestamp" in metadata(found)

    def _world(
        self, key: ClusterKey, revisions: Mapping[BrokerId, str], checked: _Checked
    ) -> World:
        """The cluster from the caches. `checked` has what was read from the API server about
        objects that the caches lack."""
        manifest = self._caches[kinds.BROKER_CLUSTERS].get(key.namespace, key.name)
        cluster = self.cluster(key)
        problems: tuple[Problem, ...] = ()
        status: Mapping[str, object] = {}
        if manifest is not None and cluster is None:
            found = self._clusters.read(manifest)
            problems = found if isinstance(found, tuple) else ()
            status = manifest.get("status") or {}
        maps, unreadable_maps = self._readable_maps(key)
        brokers, unreadable_brokers = self._readable_brokers(key)
        allowed = {key.namespace, *(cluster.spec.allowed_topic_namespaces if cluster else ())}
        self._forget_deleted()
        topics, unreadable_topics = _parsed_and_unreadable(
            self._topics, self._caches.members(kinds.TOPICS, key), key.name, TOPIC
        )
        groups, unreadable_groups = _parsed_and_unreadable(
            self._groups,
            self._caches.members(kinds.CONSUMER_GROUPS, key),
            key.name,
            CONSUMER_GROUP,
        )
        users, unreadable_users = self.users(key)
        return World(
            metadata=self.metadata(key),
            cluster=cluster,
            cluster_problems=problems,
            manifest_status=status,
            brokers=brokers,
            unreadable_brokers=unreadable_brokers,
            maps=maps,
            unreadable_maps=frozenset(unreadable_maps),
            topics=tuple(topic for topic in topics if _map_name(key, topic) not in unreadable_maps),
            groups=groups,
            users=users,
            unreadable_users=frozenset(
                one.metadata.name
                for one in unreadable_users
                if one.metadata.namespace == key.namespace
            ),
            rebalances=tuple(
                rebalance
                for rebalance in self.rebalances(key)
                if rebalance.status.state is RebalanceState.REBALANCING
            ),
            unreadable=unreadable_topics
            + unreadable_groups
            + tuple(
                _topic_with_unreadable_map(topic, key, _map_name(key, topic))
                for topic in topics
                if _map_name(key, topic) in unreadable_maps
            ),
            ended=self._liveness.ended(key),
            failed_disks=self._liveness.failed_disks(key),
            renewing=self._liveness.alive(key),
            running=self._liveness.running(key),
            silent_ms=self._liveness.silent_ms(key, brokers),
            pods=self._pods(key),
            stateful_sets=self._stateful_sets(key),
            claims=self._claims(key),
            rigid_classes=checked.rigid_classes,
            nodes=self._node_states(),
            node_ports={
                key_of(service).name: views.node_ports(service)
                for service in self._caches.members(kinds.SERVICES, key)
            },
            service_addresses=self._caches.service_addresses(key),
            revisions=revisions,
            topics_definition_deleting=checked.is_deleting and checked.definition_deleting,
            namespaces_deleting=checked.namespaces_deleting if checked.is_deleting else frozenset(),
            write_results=self._results.of(key),
            open_questions_ms=self._answered_for_ms(key, maps, brokers),
            maps_check=self._checks.of(key),
            managed_fields={
                uid_of(one): metadata(one).get("managedFields", ())
                for kind in (kinds.TOPICS, kinds.USERS)
                for one in self._caches.members(kind, key)
            },
            is_complete=self._lists.is_complete(allowed) and not checked.topics_unknown,
            sees_all_topics=not self._namespaces or allowed <= self._namespaces,
        )

    def _answered_for_ms(
        self,
        key: ClusterKey,
        maps: Mapping[str, PartitionMap],
        brokers: Mapping[BrokerId, Broker],
    ) -> Mapping[Question, int]:
        """How many milliseconds ago each request for reports about a partition was first answered
        by a live broker. Unanswered requests are left out."""
        now_ms = int(self._clock.monotonic_s() * 1000)
        watch = self._questions.setdefault(key, Watch())
        return watch.asked(maps.values(), brokers.values(), now_ms)

    def _forget_deleted(self) -> None:
        """Let the parsers forget objects that are not in the caches any more."""
        for parsed, kind in (
            (self._clusters, kinds.BROKER_CLUSTERS),
            (self._topics, kinds.TOPICS),
            (self._groups, kinds.CONSUMER_GROUPS),
            (self._brokers, kinds.BROKERS),
            (self._maps, kinds.PARTITION_MAPS),
            (self._rebalances, kinds.REBALANCES),
        ):
            parsed.sweep(self._caches[kind].objects)

    def _readable_brokers(self, key: ClusterKey) -> tuple[dict[BrokerId, Broker], dict[str, str]]:
        """Brokers by id; and by name those that cannot be parsed, with the reason."""
        brokers: dict[BrokerId, Broker] = {}
        unreadable: dict[str, str] = {}
        for manifest in self._caches.members(kinds.BROKERS, key):
            found = self._brokers.read(manifest)
            if isinstance(found, Broker):
                brokers[found.spec.broker_id] = found
            else:
                unreadable[key_of(manifest).name] = "; ".join(map(str, found))
        if unreadable and unreadable != self._logged_unreadable.get(key):
            logger.error("broker_unreadable", extra={"cluster": str(key), "problems": unreadable})
        self._logged_unreadable[key] = unreadable
        return brokers, unreadable

    def _readable_maps(self, key: ClusterKey) -> tuple[dict[str, PartitionMap], set[str]]:
        """Maps by topic name; and the names of those that cannot be parsed. The operator
        decides nothing about their topics."""
        maps: dict[str, PartitionMap] = {}
        unreadable: set[str] = set()
        for manifest in self._caches.members(kinds.PARTITION_MAPS, key):
            found = self._maps.read(manifest)
            if isinstance(found, PartitionMap):
                maps[found.spec.topic_name] = found
            else:
                name = key_of(manifest).name
                unreadable.add(name)
                facts = {"cluster": str(key), "map": name, "problems": list(map(str, found))}
                logger.error("map_unreadable", extra=facts)
        return maps, unreadable

    def _pods(self, key: ClusterKey) -> dict[BrokerId, PodState]:
        """The brokers' pods."""
        pods: dict[BrokerId, PodState] = {}
        for manifest in self._caches.members(kinds.PODS, key):
            broker_id = views.broker_id_of(manifest)
            if broker_id is not None:
                pods[broker_id] = views.pod(manifest)
        return pods

    def _stateful_sets(self, key: ClusterKey) -> dict[BrokerId, StatefulSetState]:
        """The brokers' StatefulSets."""
        found = self._caches.members(kinds.STATEFUL_SETS, key)
        by_id = ((views.broker_id_of(manifest), views.stateful_set(manifest)) for manifest in found)
        return {
            broker_id: stateful_set for broker_id, stateful_set in by_id if broker_id is not None
        }

    def _claims(self, key: ClusterKey) -> dict[BrokerId, ClaimState]:
        """The brokers' data volume claims. Other claims with the same labels are left out."""
        claims: dict[BrokerId, ClaimState] = {}
        for manifest in self._caches.members(kinds.VOLUME_CLAIMS, key):
            broker_id = views.broker_id_of(manifest)
            if broker_id is not None and key_of(manifest).name == names.volume_claim(
                key.name, broker_id
            ):
                claims[broker_id] = views.claim(manifest)
        return claims

    def _node_states(self) -> dict[str, NodeState]:
        """The states of all nodes by name. The state of an unchanged node is not made again."""
        states: dict[str, NodeState] = {}
        for manifest in self._caches[kinds.NODES].values():
            name = key_of(manifest).name
            known = self._nodes.get(name)
            if known is None or known[0] is not manifest:
                known = self._nodes[name] = (manifest, views.node(manifest))
            states[name] = known[1]
        return states


def _map_name(key: ClusterKey, topic: Topic) -> str:
    return names.partition_map(key.name, topic.topic_name)


def _topic_with_unreadable_map(topic: Topic, key: ClusterKey, map_name: str) -> Unreadable:
    """A Topic that cannot be reconciled while its map cannot be parsed."""
    problem = Problem(
        f"PartitionMap {key.namespace}/{map_name}",
        "cannot be parsed, so the operator decides nothing about the topic",
        "correct the object, or update the operator if a newer one wrote it",
        Reason.INTERNAL_ERROR,
    )
    return Unreadable(
        metadata=topic.metadata,
        cluster_name=key.name,
        problems=(problem,),
        manifest_status=write(topic.status),
        waits_for_map=True,
    )


def _absent(key: ClusterKey) -> Metadata:
    """The metadata of a BrokerCluster that does not exist: it has no uid."""
    return Metadata(name=key.name, namespace=key.namespace)


def _parsed_and_unreadable(
    parsed: Parsed[R], manifests: list[Manifest], cluster: str, kind: ResourceKind
) -> tuple[tuple[R, ...], tuple[Unreadable, ...]]:
    """The objects of a kind that can be parsed, and the others with their problems."""
    good: list[R] = []
    unreadable: list[Unreadable] = []
    for manifest in manifests:
        found = parsed.read(manifest)
        if isinstance(found, tuple):
            unreadable.append(
                Unreadable(
                    metadata=metadata_of(manifest),
                    cluster_name=cluster,
                    problems=found,
                    manifest_status=manifest.get("status") or {},
                    kind=kind,
                )
            )
        else:
            good.append(found)
    return tuple(good), tuple(unreadable)
