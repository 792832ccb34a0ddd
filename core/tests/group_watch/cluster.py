"""A cluster whose brokers know about groups, and an operator that looks at it, without either."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chiplog_core.config.topic_keys import Durability
from chiplog_core.group_watch.scene import Scene
from chiplog_core.group_watch.watch import GroupPlan, GroupWatch
from chiplog_core.groups.at import At
from chiplog_core.groups.placement import partition_of
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.actions import Announce, Create, DeleteGroup, Report
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_exchange import (
    GroupFacts,
    GroupRefusal,
    GroupsAnswer,
    GroupsRequest,
    LogRefusal,
    PartitionAnswer,
    PartitionOffset,
    PartitionPosition,
    Positions,
    PositionsRequest,
    RecordTime,
    RetentionAnswer,
    RetentionStored,
    TopicOffsets,
    TopicPositions,
)
from chiplog_core.model.group_status import ConsumerGroupStatus, GroupState, Member
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.naming.api import API_VERSION

HOME, CLUSTER = "home", "demo"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OFFSETS = "__consumer_offsets"


def brokers_cluster(**spec: object) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": CLUSTER, "namespace": HOME, "uid": "cluster"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}, **spec},
        }
    )


def group_object(
    name: str = "billing", namespace: str = HOME, meta: Mapping[str, Any] | None = None, **spec: Any
) -> ConsumerGroup:
    ref = {"name": CLUSTER} if namespace == HOME else {"name": CLUSTER, "namespace": HOME}
    about = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "generation": 1}
    return ConsumerGroup.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "ConsumerGroup",
            "metadata": {**about, **(meta or {})},
            "spec": {"clusterRef": ref, **spec},
        }
    )


def topic_map(name: str, leaders: list[int | None]) -> PartitionMapSpec:
    """A topic whose partitions are led by these brokers."""
    topic_id = TopicId(name.encode().ljust(16, b"\1")[:16])
    return PartitionMapSpec(
        cluster=CLUSTER,
        topic_name=name,
        current=topic_id,
        min_isr=1,
        durability=Durability.FSYNC,
        generations=(
            Generation(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionState(
                        partition=PartitionIndex(number),
                        replicas=(BrokerId(leader or 1),),
                        isr=(ReplicaRef(BrokerId(leader or 1), Session(1)),),
                        leader=ReplicaRef(BrokerId(leader), Session(1)) if leader else None,
                        leader_epoch=LeaderEpoch(3),
                        partition_epoch=PartitionEpoch(3),
                    )
                    for number, leader in enumerate(leaders)
                ),
            ),
        ),
    )


@dataclass
class Group:
    """What brokers know of one group."""

    committed: dict[At, int] = field(default_factory=dict)
    members: int = 0
    state: GroupState = GroupState.EMPTY
    retention_ms: int | None = None


@dataclass
class Cluster:
    """Brokers 1 to 3, what they know, and the objects of an API server beside them."""

    cluster: BrokerCluster | None = field(default_factory=brokers_cluster)
    objects: dict[str, ConsumerGroup] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    ends: dict[At, int] = field(default_factory=dict)
    times_ms: dict[At, int] = field(default_factory=dict)
    """Of every record of a partition."""
    maps: dict[str, PartitionMapSpec] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    loading: set[int] = field(default_factory=set)
    edited_by_others: set[str] = field(default_factory=set)
    watch: GroupWatch = field(default_factory=GroupWatch)
    now_ms: int = 1_000_000
    writes: list[ConsumerGroupStatus] = field(default_factory=list)
    events: list[Announce] = field(default_factory=list)
    asked_times: int = 0
    retention_writes: int = 0
    last: GroupPlan | None = None

    def __post_init__(self) -> None:
        self.maps.setdefault(OFFSETS, topic_map(OFFSETS, [1 + n % 3 for n in range(50)]))
        self.maps.setdefault("orders", topic_map("orders", [1, 2, 3]))

    # -- what a test does

    def add(self, *objects: ConsumerGroup) -> None:
        self.objects |= {one.metadata.uid: one for one in objects}

    def commit(self, group_id: str, offset: int, end: int, partition: int = 0) -> None:
        at = At("orders", partition)
        self.groups.setdefault(group_id, Group()).committed[at] = offset
        self.ends[at] = end

    def status(self, name: str = "billing", namespace: str = HOME) -> ConsumerGroupStatus:
        return self.objects[f"{namespace}/{name}"].status

    def condition(self, kind: str, name: str = "billing", namespace: str = HOME) -> tuple[str, str]:
        found = [one for one in self.status(name, namespace).conditions if one.type == kind]
        return (found[0].status.value, found[0].reason) if found else ("", "")

    def live(self, seconds: float, every_ms: int | None = None) -> None:
        """Look as often as the plans say, or `every_ms`, until so much time has passed."""
        until_ms = self.now_ms + round(seconds * 1000)
        while self.now_ms < until_ms:
            plan = self.look()
            self.now_ms += every_ms or min(plan.requeue_after_ms, 1_000)

    def look(self) -> GroupPlan:
        """One look; what it asks to be written is written."""
        scene, watch = self.scene(), self.watch
        requests = watch.facts_requests(scene)
        answers = {
            broker_id: [self._facts(broker_id, ask) for ask in of_broker]
            for broker_id, of_broker in requests.items()
            if broker_id not in self.dead
        }
        watch.take_facts(scene, answers, self.now_ms)
        for asked in watch.retention_requests().values():
            for one in asked.groups:
                self.retention_writes += 1
                self.groups[one.group_id].retention_ms = one.retention_ms
            stored = tuple(RetentionStored(group_id=one.group_id) for one in asked.groups)
            watch.take_retention(asked, RetentionAnswer(groups=stored))
        positions = [
            self._positions(broker_id, ask)
            for broker_id, of_broker in watch.position_requests(scene).items()
            if broker_id not in self.dead
            for ask in of_broker
        ]
        watch.take_positions(positions, self.wall(), self.now_ms)
        plan = self.last = watch.finish(scene, self.wall(), self.now_ms, self.now_ms)
        for action in plan.actions:
            self._do(action)
        return plan

    def wall(self) -> datetime:
        return NOW + timedelta(milliseconds=self.now_ms)

    def scene(self) -> Scene:
        objects = tuple(self.objects.values())
        cluster = self.cluster
        return Scene(
            metadata=brokers_cluster().metadata if cluster is None else cluster.metadata,
            cluster=cluster,
            groups=objects,
            find_topic=self.maps.get,
            edited_by_others=frozenset(self.edited_by_others),
            names_taken=frozenset(one.metadata.name for one in objects),
        )

    # -- what brokers and the API server do

    def _do(self, action: object) -> None:
        match action:
            case Report():
                uid = action.metadata.uid
                assert isinstance(action.status, ConsumerGroupStatus)
                self.writes.append(action.status)
                self.objects[uid] = replace(self.objects[uid], status=action.status)
            case Create():
                made = action.resource
                assert isinstance(made, ConsumerGroup)
                uid = f"{made.metadata.namespace}/{made.metadata.name}"
                assert uid not in self.objects
                meta = replace(made.metadata, uid=uid, generation=1)
                self.objects[uid] = ConsumerGroup.from_manifest(
                    replace(made, metadata=meta).to_manifest()
                )
            case DeleteGroup():
                del self.objects[action.metadata.uid]
            case Announce():
                self.events.append(action)
            case _:
                raise AssertionError(action)

    def _facts(self, broker_id: BrokerId, asked: GroupsRequest) -> GroupsAnswer:
        refused = {
            one.partition: self._refusal(broker_id, one.partition) for one in asked.partitions
        }
        wanted = asked.groups or [one for one in self.groups if partition_of(one, 50) in refused]
        return GroupsAnswer(
            groups=tuple(
                self._group(
                    broker_id, group_id, refused[PartitionIndex(partition_of(group_id, 50))]
                )
                for group_id in sorted(wanted)
            ),
            partitions=tuple(
                PartitionAnswer(partition=number, refusal=why) for number, why in refused.items()
            ),
            time_ms=self.now_ms,
        )

    def _refusal(self, broker_id: BrokerId, partition: int) -> GroupRefusal | None:
        if broker_id in self.loading:
            return GroupRefusal.LOADING
        state = self.maps[OFFSETS].generations[0].partitions[partition]
        is_leader = state.leader is not None and state.leader.broker_id == broker_id
        return None if is_leader else GroupRefusal.NOT_COORDINATOR

    def _group(self, broker_id: BrokerId, group_id: str, why: GroupRefusal | None) -> GroupFacts:
        group = self.groups.get(group_id)
        if why is not None or group is None:
            return GroupFacts(group_id=group_id, refusal=why, state=GroupState.DEAD)
        return GroupFacts(
            group_id=group_id,
            coordinator=broker_id,
            state=group.state,
            protocol="range" if group.members else "",
            member_count=group.members,
            members=tuple(
                Member(member_id=f"m-{number:04}", client_id="c", host="/10.0.0.1")
                for number in range(group.members)
            ),
            topics=tuple(
                TopicOffsets(
                    topic=at.topic,
                    partitions=(
                        PartitionOffset(
                            partition=PartitionIndex(at.partition),
                            committed_offset=offset,
                            end_offset=self._own_end(broker_id, at),
                        ),
                    ),
                )
                for at, offset in group.committed.items()
            ),
            offset_retention_ms=group.retention_ms,
        )

    def _leads(self, broker_id: BrokerId, at: At) -> bool:
        topic = self.maps.get(at.topic)
        states = topic.generations[0].partitions if topic else ()
        return any(
            one.partition == at.partition and one.leader and one.leader.broker_id == broker_id
            for one in states
        )

    def _own_end(self, broker_id: BrokerId, at: At) -> Offset | None:
        return Offset(self.ends[at]) if self._leads(broker_id, at) else None

    def _positions(self, broker_id: BrokerId, asked: PositionsRequest) -> Positions:
        return Positions(
            topics=tuple(
                TopicPositions(
                    topic=topic.topic,
                    partitions=tuple(
                        self._position(broker_id, At(topic.topic, one.partition), one.offsets)
                        for one in topic.partitions
                    ),
                )
                for topic in asked.topics
            ),
            time_ms=self.now_ms,
        )

    def _position(
        self, broker_id: BrokerId, at: At, offsets: tuple[Offset, ...]
    ) -> PartitionPosition:
        number = PartitionIndex(at.partition)
        if not self._leads(broker_id, at):
            return PartitionPosition(partition=number, refusal=LogRefusal.NOT_LEADER)
        end = Offset(self.ends[at])
        self.asked_times += sum(offset < end for offset in offsets)
        time_ms = self.times_ms.get(at)
        return PartitionPosition(
            partition=number,
            end_offset=end,
            times=tuple(
                RecordTime(offset=offset, timestamp_ms=time_ms)
                for offset in offsets
                if offset < end and time_ms is not None
            ),
        )
