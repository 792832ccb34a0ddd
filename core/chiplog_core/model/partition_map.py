"""PartitionMap: leaders, replicas and in-sync replicas of the topic with one name.

Together these objects are what the log of a controller quorum is in Kafka. Only the operator writes
them, always on the condition that the resource version has not changed. Everything is in the spec,
because backups omit statuses. They have no owner reference: nothing that holds data is ever deleted
because something else is missing.

Invariants over two successive states of a map: leader epochs and partition epochs never decrease,
the planner never reduces an ISR below min(min ISR, its size), and a topic id that a tombstone names
is never used again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    TopicId,
)
from chiplog_core.limits import (
    MAX_BROKERS,
    MAX_GENERATIONS,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_REPLICAS,
    MAX_TOMBSTONES,
)
from chiplog_core.manifest.constraints import Items, Range
from chiplog_core.model.broker_status import FenceNumber, Isr, SwitchNumber
from chiplog_core.model.metadata import Uid
from chiplog_core.model.reassignment import Leftovers, MovingReplicas
from chiplog_core.model.references import (
    ClientConfig,
    ClusterName,
    ConfigTexts,
    ReplicaList,
    TopicName,
)
from chiplog_core.model.resource import Resource
from chiplog_core.naming import api

FIRST_OFFSET = Offset(0)

BrokerIds = Annotated[tuple[BrokerId, ...], Items(MAX_BROKERS, unique=True)]


class FencePurpose(StrEnum):
    """Why a topic refuses writes."""

    HIBERNATE = "Hibernate"
    REPARTITION = "Repartition"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The operator's decisions about one partition."""

    partition: Annotated[PartitionIndex, "Number of the partition in its topic, counted from 0."]
    replicas: Annotated[
        ReplicaList,
        "Ids of the brokers that hold a replica of the partition; the first one is its "
        "preferred leader. During a reassignment: the replicas that the partition will have, "
        "followed by those that it will lose.",
    ]
    isr: Annotated[
        Isr,
        "The in-sync replicas, as broker id and session: they hold every acknowledged "
        "record. A dead replica stays listed if fewer than min ISR would be left.",
    ]
    leader: Annotated[
        ReplicaRef | None,
        "The leader of the partition, as broker id and session; not set while the "
        "partition is offline.",
    ] = None
    leader_epoch: Annotated[
        LeaderEpoch,
        "Number of the leadership. It is raised with every change of the leader or of "
        "the leader's session.",
    ]
    partition_epoch: Annotated[
        PartitionEpoch,
        "Number of the state of the partition. It is raised with every change of this "
        "partition's entry.",
    ]
    adding: Annotated[
        MovingReplicas,
        "Ids of the brokers to which the present reassignment adds a replica.",
    ] = ()
    removing: Annotated[
        MovingReplicas,
        "Ids of the brokers whose replica the present reassignment removes, as soon as all "
        "others are in sync.",
    ] = ()
    leftovers: Annotated[
        Leftovers,
        "Replicas that a reassignment has taken out of the partition, until their brokers have "
        "deleted the data.",
    ] = ()
    unclean_epoch: Annotated[
        LeaderEpoch | None,
        "Leader epoch of the last unclean election, which may have lost acknowledged records and "
        "which a person or the topic's durability accepted; not set if there never was one. A "
        "replica may truncate its log below its own high watermark only for records from before "
        "that epoch.",
    ] = None
    reports_wanted: Annotated[
        bool,
        "The operator asks the replicas for the state of their disks and decides nothing before "
        "they have answered: no in-sync replica that kept running can lead, or a replica had "
        "newer metadata than this map.",
    ] = False

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment of the partition is in progress."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas that the partition will have when the present reassignment is complete; its
        replicas if there is none."""
        if not self.removing:
            return self.replicas
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """The replicas that the partition had before the present reassignment, and will have if it
        is cancelled; its replicas if there is none."""
        if not self.adding:
            return self.replicas
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def holders(self) -> frozenset[BrokerId]:
        """The brokers that may have data of the partition: replicas and leftovers."""
        return frozenset(self.replicas).union(one.broker for one in self.leftovers)


def fewest_replicas(partitions: Iterable[PartitionState]) -> int:
    """The lowest number of replicas that one of the partitions has, before and after its present
    reassignment."""
    return min(min(len(state.target), len(state.assigned)) for state in partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One set of partitions under the topic's name, with its own topic id."""

    topic_id: Annotated[
        TopicId,
        "Kafka's id of this generation, which is one set of partitions under the topic name.",
    ]
    start_offset: Annotated[
        Offset,
        "First offset of the generation. It is higher than every offset of an older generation, "
        "so that an old position is never silently valid.",
    ] = FIRST_OFFSET
    trash_until: Annotated[
        datetime | None, "Only for a generation in the trash: until when it can be restored."
    ] = None
    partitions: Annotated[
        tuple[PartitionState, ...],
        "The partitions of this generation.",
        Items(MAX_PARTITIONS_PER_TOPIC, minimum=1, key=("partition",)),
    ]

    @property
    def replication_factor(self) -> int:
        """Number of replicas of the first partition, without those that a reassignment removes."""
        return len(self.partitions[0].target)

    def state_of(self, partition: PartitionIndex) -> PartitionState | None:
        """The partition with this number; None if there is none."""
        states = self.partitions
        if partition < len(states) and states[partition].partition == partition:
            return states[partition]  # the operator writes them in the order of their numbers
        return next((state for state in states if state.partition == partition), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The order to delete the data of a topic id. Brokers delete data only by such an order."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic whose data is deleted."]
    brokers: Annotated[
        BrokerIds, "Ids of the brokers that held a replica and must delete the topic's data."
    ]
    confirmed: Annotated[
        BrokerIds,
        "Ids of the brokers that have no data of the topic any more, or are known to be "
        "gone for good.",
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The topic refuses writes until the operator removes the fence. It never expires."""

    number: Annotated[FenceNumber, "Number of this order to refuse writes; leaders acknowledge it."]
    purpose: Annotated[FencePurpose, "Why the topic refuses writes."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMapSpec:
    """The operator's decisions about a topic name."""

    cluster: Annotated[ClusterName, "Name of the BrokerCluster that the topic belongs to."]
    topic_name: Annotated[TopicName, "Name of the topic for Kafka clients."]
    owner_uid: Annotated[
        Uid | None,
        "metadata.uid of the Topic object that owns the name. Any other Topic with this name is "
        "refused, even an older one. Not set for internal topics.",
    ] = None
    current: Annotated[
        TopicId | None,
        "Kafka's id of the current generation (an entry of spec.generations); not set "
        "while the topic is deleted.",
    ] = None
    min_isr: Annotated[
        int,
        "Number of in-sync replicas that must have a record before a write with "
        "acks=all is answered. The operator derives it from min.insync.replicas; "
        "brokers follow only this number.",
        Range(1, MAX_REPLICAS),
    ]
    durability: Annotated[
        Durability,
        "What must have happened to a record before it is acknowledged. Fsync: it is on "
        "disk on all in-sync replicas. PageCache: it is in their memory.",
    ]
    durability_switch: Annotated[
        SwitchNumber, "Number of changes of the topic's durability so far."
    ] = 0
    unflushed: Annotated[
        BrokerIds,
        "After a change of the durability to Fsync: ids of the brokers that have not "
        "yet synced their existing records. The topic is treated as PageCache until the "
        "list is empty.",
    ] = ()
    config: Annotated[ConfigTexts, "Kafka configuration that the topic sets itself."] = field(
        default_factory=dict
    )
    inherited_config: Annotated[
        ConfigTexts, "Broker configuration of the cluster that the topic inherits."
    ] = field(default_factory=dict)
    client_config: Annotated[
        ClientConfig,
        "Kafka configuration of the topic that only Kafka's clients set: the lists of throttled "
        "replicas.",
    ] = field(default_factory=dict)
    hibernated: Annotated[
        bool, "True if the map is frozen: the operator makes no elections and no ISR changes."
    ] = False
    fence: Annotated[
        Fence | None, "The topic refuses writes until the operator removes the fence."
    ] = None
    generations: Annotated[
        tuple[Generation, ...],
        "The sets of partitions under this name, each with its own topic id.",
        Items(MAX_GENERATIONS, key=("topicId",)),
    ] = ()
    tombstones: Annotated[
        tuple[Tombstone, ...],
        "Orders to brokers to delete the data of deleted topics of this name. The name "
        "can be used again when all of them are confirmed.",
        Items(MAX_TOMBSTONES, key=("topicId",)),
    ] = ()

    @property
    def current_generation(self) -> Generation | None:
        """The generation that the topic name stands for now; None while the topic is deleted."""
        return next(
            (generation for generation in self.generations if generation.topic_id == self.current),
            None,
        )

    @property
    def current_partitions(self) -> tuple[PartitionState, ...]:
        """The partitions of the current generation; none while the topic is deleted."""
        generation = self.current_generation
        return () if generation is None else generation.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMap(Resource):
    """Leaders, replicas and in-sync replicas of a topic. Written by the operator, not by users.

    Never delete it: it is the only place that knows which replica may lead.
    """

    KIND = api.PARTITION_MAP

    spec: PartitionMapSpec
