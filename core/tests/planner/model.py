"""A tiny Kubernetes for the planner: objects in memory, compare-and-set, and brokers that obey.

`Kubernetes` carries out actions as the operator does, one by one, so that a test can stop after
any of them and plan again from what is there: that is an operator which was killed. Brokers do
the least that real ones do: register, take their session, confirm tombstones, flush, report.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from chiplog_core.ids import (
    BrokerId,
    Incarnation,
    PartitionIndex,
    Session,
    StorageUuid,
    TopicId,
)
from chiplog_core.model.actions import (
    Action,
    Announce,
    Create,
    DeleteClaim,
    DeleteMap,
    Plan,
    RebuildVolume,
    Replace,
    Report,
    RequestRestarts,
    RestartPod,
    SetMetadata,
    WriteTopic,
)
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.broker_status import (
    BrokerStatus,
    DataDirectory,
    FlushedTopic,
    RemovedReplica,
    ReplicaReport,
    Tail,
)
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.resource import Resource
from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels, names
from chiplog_core.observed.report_requests import Watch
from chiplog_core.observed.world import ClaimState, NodeState, PodState, StatefulSetState, World
from chiplog_core.planner.plan import plan
from tests.planner.invariants import check_change, check_map, is_version, knows_less
from tests.planner.lookups import look
from tests.planner.objects import CLUSTER, NOW, cluster, partitions_of, removable

S = TypeVar("S", bound=Resource)


@dataclass(slots=True)
class Disk:
    """What a broker's volume holds."""

    storage_uuid: StorageUuid
    intact_since: Session
    log_ends: dict[tuple[TopicId, PartitionIndex], tuple[int, int]] = field(default_factory=dict)
    """(last leader epoch, log end) of each replica; (0, 0) where not told."""
    committed: dict[tuple[TopicId, PartitionIndex], int] = field(default_factory=dict)
    """The high watermark checkpoint of each replica, where there is one."""
    is_cut: bool = False
    """The last start cut the ends of the logs."""
    known: dict[str, PartitionMap] = field(default_factory=dict)
    """The newest map of each topic that the broker applied."""


class Kubernetes:
    """The API server, the nodes, and one cluster's brokers."""

    def __init__(self, replicas: int = 3, **spec: object) -> None:
        self._versions = count(1)
        self._uids = count(1)
        self._numbers = count(1)
        self.now = NOW
        self.cluster = self.stored(cluster(replicas, **spec))
        self.brokers: dict[BrokerId, Broker] = {}
        self.maps: dict[str, PartitionMap] = {}
        self.topics: dict[str, Topic] = {}
        self.rebalances: tuple[Rebalance, ...] = ()
        self.pods: dict[BrokerId, PodState] = {}
        self.stateful_sets: Mapping[BrokerId, StatefulSetState] = {}
        self.claims: Mapping[BrokerId, ClaimState] = {}
        self.cordoned: set[str] = set()
        """Names of nodes."""
        self.disks: dict[BrokerId, Disk] = {}
        self.ended: dict[Incarnation, str] = {}
        self.failed_disks: set[Incarnation] = set()
        self.renewing: set[Incarnation] = set()
        self.holders: dict[BrokerId, Incarnation] = {}
        """Who holds each broker's Lease."""
        self.silent_ms: dict[BrokerId, int] = {}
        self.revisions: dict[BrokerId, str] = {}
        self.announced: list[Announce] = []
        self.restarted: list[RestartPod | RebuildVolume] = []
        self.deleted_claims: list[DeleteClaim] = []
        self.buried: set[TopicId] = set()
        """Topic ids that a tombstone ever named."""
        self.zones: Mapping[BrokerId, str] = {}
        self.nodes: Mapping[BrokerId, str] = {}
        """Broker -> name of its node, if it is not its own one."""
        self.questions = Watch()
        self.maps_check = ""

    # -- what users do

    def apply(self, topic: Topic) -> Topic:
        """`kubectl apply` of a Topic."""
        before = self.topics.get(topic.metadata.name)
        if before is None:
            return self._put(self.stored(topic))
        meta = replace(
            before.metadata,
            generation=before.metadata.generation + (topic.spec != before.spec),
            annotations=topic.metadata.annotations,
        )
        return self._put(self.stored(replace(before, metadata=meta, spec=topic.spec)))

    def delete(self, name: str) -> None:
        """`kubectl delete` of a Topic."""
        topic = self.topics[name]
        if not topic.metadata.finalizers:
            del self.topics[name]
            return
        gone = replace(topic.metadata, deletion_timestamp=self.now)
        self._put(self.stored(replace(topic, metadata=gone)))

    def roll_out(self, *broker_ids: int, revision: str = "new") -> None:
        """The pods of these brokers should have another revision, as the status says already."""
        self.revisions = {BrokerId(broker_id): revision for broker_id in broker_ids}
        status = replace(self.cluster.status, revision=revision)
        self.cluster = replace(self.cluster, status=status)

    def configure(self, replicas: int | None = None, **spec: object) -> None:
        """`kubectl apply` of the BrokerCluster."""
        wanted = cluster(replicas or self.cluster.spec.replicas, **spec)
        meta = self.cluster.metadata
        meta = replace(meta, generation=meta.generation + 1)
        self.cluster = self.stored(replace(self.cluster, metadata=meta, spec=wanted.spec))

    # -- what brokers do

    def start(
        self,
        broker_id: int,
        *,
        tail: Tail = Tail.INTACT,
        new_disk: bool = False,
        went_back: bool = False,
        is_cut: bool = False,
    ) -> None:
        """A new process of the broker registers; one that ran before is dead."""
        broker = self.brokers[BrokerId(broker_id)]
        disk = self.disks.get(broker.spec.broker_id)
        if disk is None or new_disk:
            disk = Disk(StorageUuid(self._number()), Session(broker.spec.session + 1))
            self.disks[broker.spec.broker_id] = disk
        elif tail is Tail.SUSPECT:
            disk.intact_since = Session(broker.spec.session + 1)
        disk.is_cut = is_cut
        incarnation = Incarnation(f"{next(self._numbers):032x}")
        directory = DataDirectory(
            storage_uuid=disk.storage_uuid,
            tail=tail,
            intact_since=disk.intact_since,
            went_back=went_back,
        )
        self.renewing.add(incarnation)
        self.holders[broker.spec.broker_id] = incarnation
        self.status(broker_id, BrokerStatus(incarnation=incarnation, directories=(directory,)))
        self.pods[broker.spec.broker_id] = PodState(
            name=names.pod(CLUSTER, broker.spec.broker_id),
            uid=f"pod-{incarnation}",
            node=self.node_of(broker_id),
            ready=True,
            revision=self.revisions.get(broker.spec.broker_id, ""),
        )

    def node_of(self, broker_id: int) -> str:
        """The node of the broker's pod."""
        return self.nodes.get(BrokerId(broker_id), f"node-{broker_id}")

    def kill(self, broker_id: int) -> None:
        """The broker's process dies and the kubelet says so."""
        incarnation = self.brokers[BrokerId(broker_id)].status.incarnation
        assert incarnation is not None
        self.ended[incarnation] = "was killed"
        self.renewing.discard(incarnation)

    def status(self, broker_id: int, status: BrokerStatus) -> None:
        """The broker writes its status."""
        broker = self.brokers[BrokerId(broker_id)]
        self._put(self.stored(replace(broker, status=status)))

    def obey(self) -> None:
        """Every broker that is admitted does what its maps say."""
        for broker_id in sorted(self.brokers):
            self.obey_one(broker_id)

    def obey_one(self, broker_id: BrokerId) -> None:
        """This broker does so, if it is admitted."""
        broker = self.brokers[broker_id]
        process = broker.status.incarnation
        is_admitted = process is not None and process == broker.spec.admitted_incarnation
        if is_admitted and process not in self.ended:
            self._obey(broker_id, broker)

    def _obey(self, broker_id: BrokerId, broker: Broker) -> None:
        disk = self.disks[broker_id]
        regressed = set(disk.known) - set(self.maps)
        for name, one in self.maps.items():
            known = disk.known.get(name)
            if known is one:
                continue
            if known is not None and knows_less(one, known):
                regressed.add(name)
            else:
                disk.known[name] = one
        regressed = {name for name in regressed if disk.known[name].spec.generations}
        status = replace(
            broker.status,
            session=broker.spec.session,
            flushed_topics=tuple(
                FlushedTopic(
                    topic_id=one.spec.current, durability_switch=one.spec.durability_switch
                )
                for one in disk.known.values()
                if broker_id in one.spec.unflushed and one.spec.current is not None
            ),
            confirmed_tombstones=tuple(
                tombstone.topic_id
                for one in disk.known.values()
                for tombstone in one.spec.tombstones
                if broker_id in tombstone.brokers
            ),
            removed_replicas=tuple(
                RemovedReplica(
                    topic_id=generation.topic_id,
                    partition=state.partition,
                    partition_epoch=state.partition_epoch,
                )
                for one in disk.known.values()
                for generation, state in look(one).restless
                if broker_id in removable(state)
            ),
            replica_reports=tuple(self._reports(broker_id, disk, regressed)),
            maps_checked=broker.spec.maps_check,
        )
        if status != broker.status:
            self.status(broker_id, status)

    def _reports(
        self, broker_id: BrokerId, disk: Disk, regressed: set[str]
    ) -> Iterator[ReplicaReport]:
        told = [
            (name, generation, state)
            for name, one in disk.known.items()
            for generation, state in (
                look(one).restless
                if name not in regressed
                else [found[1:] for found in partitions_of([one])]
            )
            if state.reports_wanted or name in regressed
        ]
        for name, generation, state in told:
            if broker_id in self._named_by_either(name, generation.topic_id, state):
                key = generation.topic_id, state.partition
                epoch, end = disk.log_ends.get(key, (0, 0))
                yield ReplicaReport(
                    topic_id=generation.topic_id,
                    partition=state.partition,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    isr=state.isr,
                    replicas=state.replicas,
                    adding=state.adding,
                    removing=state.removing,
                    leftovers=state.leftovers,
                    unclean_epoch=state.unclean_epoch,
                    log_leader_epoch=type(state.leader_epoch)(epoch),
                    log_end_offset=end,  # type: ignore[arg-type]
                    high_watermark=disk.committed.get(key),  # type: ignore[arg-type]
                    cut=disk.is_cut,
                )

    def _named_by_either(
        self, name: str, topic_id: TopicId, state: PartitionState
    ) -> frozenset[BrokerId]:
        """Whom the map that a broker applied names, or the one that there is."""
        now = self.maps.get(name)
        there = () if now is None else partitions_of([now])
        others = (
            one.holders
            for _, generation, one in there
            if (generation.topic_id, one.partition) == (topic_id, state.partition)
        )
        return state.holders.union(*others)

    # -- what the operator does

    def world(self, **changes: Any) -> World:
        """What the operator sees."""
        observed = World(
            metadata=self.cluster.metadata,
            cluster=self.cluster,
            brokers=dict(self.brokers),
            maps=dict(self.maps),
            topics=tuple(self.topics.values()),
            rebalances=self.rebalances,
            ended=dict(self.ended),
            failed_disks=frozenset(self.failed_disks),
            renewing=frozenset(self.renewing),
            running=frozenset(
                broker_id for broker_id, one in self.holders.items() if one not in self.ended
            ),
            silent_ms=dict(self.silent_ms),
            pods=dict(self.pods),
            stateful_sets=self.stateful_sets,
            claims=self.claims,
            nodes={
                self.node_of(broker_id): NodeState(
                    name=self.node_of(broker_id),
                    address=f"10.0.0.{broker_id}",
                    labels={"zone": self.zones.get(broker_id, f"zone-{broker_id}")},
                    cordoned=self.node_of(broker_id) in self.cordoned,
                )
                for broker_id in self.brokers
            },
            revisions=dict(self.revisions),
            open_questions_ms=self.questions.asked(
                self.maps.values(), self.brokers.values(), self._now_ms()
            ),
            maps_check=self.maps_check,
        )
        return replace(observed, **changes)

    def _now_ms(self) -> int:
        return int((self.now - NOW).total_seconds() * 1000)

    def plan(self, **changes: Any) -> Plan:
        return plan(self.world(**changes), self.now, self.new_topic_id)

    def new_topic_id(self) -> TopicId:
        return TopicId(self._number())

    def execute(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.do(action)

    def settle(self, rounds: int = 12, **changes: Any) -> int:
        """Plan and act until there is nothing to do; how many rounds that took."""
        for number in range(rounds):
            actions = self._due(**changes)
            if not actions:
                before = self.statuses()
                self.obey()
                if self.statuses() == before:
                    return number
            self.execute(actions)
            self.obey()
        raise AssertionError(f"still busy after {rounds} rounds: {self._due(**changes)}")

    def _due(self, **changes: Any) -> list[Action]:
        """What is to be done, but for restarts: those are a test's own business."""
        actions = self.plan(**changes).actions
        return [one for one in actions if not isinstance(one, RestartPod | RebuildVolume)]

    def statuses(self) -> list[BrokerStatus]:
        return [broker.status for broker in self.brokers.values()]

    def run(self, **changes: Any) -> None:
        """From nothing to a cluster whose brokers are admitted and whose topics are there."""
        self.settle(**changes)
        for broker_id in self.brokers:
            self.start(broker_id)
        self.settle(**changes)

    def do(self, action: Action) -> None:
        """Carry out one action as the API server would, or leave it where it is outdated."""
        match action:
            case Create(resource=made):
                assert not isinstance(made, ConsumerGroup), "the planner makes none"
                if not self._has(made):
                    self._put(self.stored(made))
            case Replace(resource=new):
                self._replace(new)
            case DeleteMap(resource=gone):
                self._delete_map(gone)
            case SetMetadata():
                self._set_metadata(action)
            case Report():
                self._report(action)
            case Announce():
                self.announced.append(action)
            case RestartPod() | RequestRestarts() | RebuildVolume() | DeleteClaim():
                self._change_pods(action)
            case WriteTopic():
                raise AssertionError("no admin request was made")

    def _delete_map(self, gone: PartitionMap) -> None:
        known = self.maps.get(gone.spec.topic_name)
        if known is not None and is_version(known, gone.metadata):
            assert not known.spec.generations, "only what is empty may go"
            del self.maps[gone.spec.topic_name]

    def _replace(self, new: Broker | PartitionMap) -> None:
        if isinstance(new, Broker):
            broker = self.brokers[new.spec.broker_id]
            if is_version(broker, new.metadata):
                self._put(self.stored(replace(broker, spec=new.spec)))
            return
        known = self.maps.get(new.spec.topic_name)
        if known is not None and is_version(known, new.metadata):
            check_change(known, new)
            self.buried.update(tombstone.topic_id for tombstone in new.spec.tombstones)
            self._put(self.stored(new))

    def _change_pods(
        self, action: RestartPod | RequestRestarts | RebuildVolume | DeleteClaim
    ) -> None:
        """What becomes of a pod is a test's own business; a claim is gone."""
        if isinstance(action, DeleteClaim):
            self._delete_claim(action)
            return
        if not isinstance(action, RequestRestarts):
            self.restarted.append(action)
            return
        wish = {labels.MANUAL_ROLLING_UPDATE: "true"}
        self.stateful_sets = {
            broker_id: replace(one, annotations={**one.annotations, **wish})
            if one.name in action.stateful_sets
            else one
            for broker_id, one in self.stateful_sets.items()
        }

    def annotate(self, **annotations: str | None) -> None:
        """`kubectl annotate` of the BrokerCluster, with Chiplog's prefix; None removes one."""
        given = {f"chiplog.dev/{key.replace('_', '-')}": one for key, one in annotations.items()}
        meta = self.cluster.metadata
        every = {**meta.annotations, **given}
        kept = {key: one for key, one in every.items() if one is not None}
        self.cluster = self.stored(replace(self.cluster, metadata=replace(meta, annotations=kept)))

    def _set_metadata(self, action: SetMetadata) -> None:
        if action.kind == BrokerCluster.KIND:
            if is_version(self.cluster, action.metadata):
                assert action.removed_annotations == (labels.MANUAL_ROLLING_UPDATE,)
                self.annotate(manual_rolling_update=None)
            return
        topic = self.topics.get(action.metadata.name)
        if topic is None or not is_version(topic, action.metadata):
            return
        meta = topic.metadata
        if action.finalizers is not None:
            meta = replace(meta, finalizers=action.finalizers)
        if meta.deletion_timestamp is not None and not meta.finalizers:
            del self.topics[meta.name]
            return
        meta = replace(meta, labels={**meta.labels, **action.labels})
        self._put(self.stored(replace(topic, metadata=meta)))

    def _delete_claim(self, action: DeleteClaim) -> None:
        self.deleted_claims.append(action)
        self.claims = {
            broker_id: claim
            for broker_id, claim in self.claims.items()
            if claim.uid != action.claim_uid
        }

    def _report(self, action: Report) -> None:
        if action.kind == BrokerCluster.KIND:
            self.cluster = replace(self.cluster, status=action.status)  # type: ignore[arg-type]
        elif action.metadata.name in self.topics:
            topic = self.topics[action.metadata.name]
            self._put(self.stored(replace(topic, status=action.status)))  # type: ignore[arg-type]

    # -- storage

    def _has(self, resource: Broker | PartitionMap | Topic) -> bool:
        if isinstance(resource, Topic):
            return resource.metadata.name in self.topics
        if isinstance(resource, Broker):
            return resource.spec.broker_id in self.brokers
        return resource.spec.topic_name in self.maps

    def _put(self, resource: S) -> S:
        match resource:
            case Broker():
                self.brokers[resource.spec.broker_id] = resource
            case PartitionMap():
                check_map(resource)
                self.maps[resource.spec.topic_name] = resource
            case Topic():
                self.topics[resource.metadata.name] = resource
        return resource

    def stored(self, resource: S) -> S:
        meta = resource.metadata
        meta = replace(
            meta,
            uid=meta.uid or f"uid-{next(self._uids)}",
            generation=meta.generation or 1,
            creation_timestamp=meta.creation_timestamp or self.now,
            resource_version=str(next(self._versions)),
        )
        return replace(resource, metadata=meta)

    def _number(self) -> bytes:
        return (next(self._numbers) + 1000).to_bytes(16, "big")
