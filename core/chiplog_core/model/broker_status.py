"""The status of a Broker object, in which a broker reports its own state.

The operator checks everything here before it decides anything; the status itself decides nothing.
It has no field that grows with the number of records or of consumer groups.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import (
    MAX_INT32,
    MAX_INT64,
    Incarnation,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    StorageUuid,
    TopicId,
)
from chiplog_core.limits import (
    MAX_ADMIN_REQUESTS,
    MAX_DAMAGE_HISTORY,
    MAX_DAMAGED_PARTITIONS,
    MAX_DATA_DIRECTORIES,
    MAX_ENDPOINTS,
    MAX_MESSAGE_LENGTH,
    MAX_PROPOSALS,
    MAX_REFETCHES,
    MAX_REPLICA_REPORTS,
    MAX_REPLICAS_PER_PARTITION,
    MAX_TOMBSTONES,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME
from chiplog_core.model.listener_certificate import ListenerCertificate
from chiplog_core.model.reassignment import Leftovers, MovingReplicas
from chiplog_core.model.references import TopicName

Bytes = Annotated[int, Range(0, MAX_INT64)]
Isr = Annotated[tuple[ReplicaRef, ...], Items(MAX_REPLICAS_PER_PARTITION, minimum=1, unique=True)]
SwitchNumber = Annotated[int, Range(0, MAX_INT32)]
FenceNumber = Annotated[int, Range(1, MAX_INT32)]


class Tail(StrEnum):
    """Whether the ends of the logs of a data directory were complete when the broker started."""

    INTACT = "intact"
    SUSPECT = "suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPartition:
    """A replica whose stored data is known to be wrong. It does not lead and must be refetched."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic of the damaged replica."]
    partition: Annotated[PartitionIndex, "Number of the partition of the damaged replica."]
    file: Annotated[str, "File of the replica in which the damage was found.", Length(512)]
    offset: Annotated[
        Offset | None, "First offset of the damaged replica that cannot be trusted."
    ] = None
    message: Annotated[
        str, "What is wrong with the file of the damaged replica.", Length(1_024)
    ] = ""
    refetching: Annotated[
        bool,
        "True if the damaged files were put aside and a new copy is being fetched from "
        "the leader. The copy joins the ISR only when that leader proposes it, and can "
        "lead only after the replica has left status.directories[].damaged. Also false "
        "while the ISR may still list the replica for its old, damaged log.",
    ] = False


class DamageKind(StrEnum):
    """How stored data is not what was written."""

    CHANGED = "Changed"
    TRUNCATED = "Truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDamage:
    """A replica that was found damaged, and may have been repaired in the meantime."""

    topic: Annotated[TopicName, "Name of the topic of the replica that was found damaged."]
    topic_id: Annotated[TopicId, "Kafka's id of the topic of the replica that was found damaged."]
    partition: Annotated[
        PartitionIndex, "Number of the partition of the replica that was found damaged."
    ]
    kind: Annotated[
        DamageKind,
        "Changed: bytes of the file are not what was written. Truncated: the file ends "
        "too early, and the rest of it is undamaged.",
    ]
    file: Annotated[str, "File of the replica in which the damage was found.", Length(512)]
    offset: Annotated[
        Offset | None, "First offset of the replica that cannot be trusted, or is missing."
    ] = None
    message: Annotated[str, "What was wrong with the file of the replica.", Length(1_024)] = ""
    found_at: Annotated[datetime, "When the damage was found, by the broker's clock."]
    whole_at: Annotated[
        datetime | None,
        "When an undamaged copy had replaced the replica, by the broker's clock; not set before.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """One data directory, as the broker found it at start."""

    storage_uuid: Annotated[
        StorageUuid,
        "Id of the data directory, from its file meta.properties; a new directory gets a new id.",
    ]
    tail: Annotated[
        Tail,
        "intact: no record that was acknowledged here can be missing (clean shutdown, only Fsync "
        "topics, or the page cache survived). suspect: acknowledged records may be missing.",
    ]
    intact_since: Annotated[
        Session,
        "The oldest session since which every start found the directory intact. The directory "
        "holds everything that in-sync replicas of this session or a later one acknowledged.",
    ]
    went_back: Annotated[
        bool,
        "True if the volume is an older copy of the broker's volume: restored from a "
        "snapshot, or rolled back by the storage. Records acknowledged after the copy "
        "was made are missing on it.",
    ] = False
    online: Annotated[
        bool, "False after a failed write or sync: the broker does not use the directory any more."
    ] = True
    total_bytes: Annotated[Bytes | None, "Size of the volume in bytes."] = None
    usable_bytes: Annotated[Bytes | None, "Free space on the volume in bytes."] = None
    log_bytes: Annotated[
        Bytes | None,
        "Size of all replicas in the directory in bytes; not set in the first minute after a "
        "start.",
    ] = None
    full: Annotated[
        bool,
        "True if less space is free on the volume than chiplog.disk.reserve.bytes: the "
        "broker refuses writes until there is enough space again.",
    ] = False
    damaged: Annotated[
        tuple[DamagedPartition, ...],
        "Replicas in this directory that are known to be damaged.",
        Items(MAX_DAMAGED_PARTITIONS, key=("topicId", "partition")),
    ] = ()
    damage_history: Annotated[
        tuple[PastDamage, ...],
        "Damage that this process has found in this directory, newest first, including damage "
        "that has been repaired.",
        Items(MAX_DAMAGE_HISTORY),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A leader's proposal to change the in-sync replicas of a partition.

    It is a promise: until the map shows a partitionEpoch above basePartitionEpoch, the leader
    neither changes nor withdraws it and waits for the old and the proposed replicas alike. The
    operator accepts it only if the map still equals what it names, and answers in any case, a
    refusal too, by raising partitionEpoch.
    """

    topic_id: Annotated[TopicId, "Kafka's id of the topic whose in-sync replicas should change."]
    partition: Annotated[
        PartitionIndex, "Number of the partition whose in-sync replicas should change."
    ]
    session: Annotated[Session, "Session of the leader that makes the proposal."]
    leader_epoch: Annotated[LeaderEpoch, "Leader epoch in which this broker leads the partition."]
    base_partition_epoch: Annotated[
        PartitionEpoch,
        "The partitionEpoch of the partition that the proposal is based on. A proposal "
        "with a lower number than the partition has is decided already.",
    ]
    isr: Annotated[Isr, "The in-sync replicas that the leader proposes."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """A partition's state on a broker's disk, which serves as a backup of its PartitionMap.

    A broker reports it if it has applied newer metadata than the map has, as after etcd was
    restored from a backup, and if reportsWanted of the map asks for it.
    """

    topic_id: Annotated[TopicId, "Kafka's id of the topic of the reported replica."]
    partition: Annotated[PartitionIndex, "Number of the partition of the reported replica."]
    leader_epoch: Annotated[
        LeaderEpoch, "Highest leaderEpoch of the partition that the broker has applied."
    ]
    partition_epoch: Annotated[
        PartitionEpoch, "Highest partitionEpoch of the partition that the broker has applied."
    ]
    isr: Annotated[
        Isr, "The in-sync replicas in the last state of the partition that the broker has applied."
    ]
    replicas: Annotated[
        MovingReplicas,
        "The replicas in the last state of the partition that the broker has applied; empty in a "
        "report by an older version.",
    ] = ()
    adding: Annotated[
        MovingReplicas,
        "The replicas that a reassignment adds, in the last state of the partition that the "
        "broker has applied.",
    ] = ()
    removing: Annotated[
        MovingReplicas,
        "The replicas that a reassignment removes, in the last state of the partition that the "
        "broker has applied.",
    ] = ()
    leftovers: Annotated[
        Leftovers,
        "The leftovers in the last state of the partition that the broker has applied.",
    ] = ()
    unclean_epoch: Annotated[
        LeaderEpoch | None,
        "The uncleanEpoch in the last state of the partition that the broker has "
        "applied; not set if there was no unclean election.",
    ] = None
    log_leader_epoch: Annotated[
        LeaderEpoch | None,
        "Last leader epoch of the replica's log, even if retention has emptied the log; "
        "not set if the log never had records.",
    ] = None
    log_end_offset: Annotated[Offset, "The offset after the last record of the replica's log."]
    high_watermark: Annotated[
        Offset | None,
        "High watermark from the checkpoint that was found at start: records below it were "
        "committed. A log that ends below it has lost some of them.",
    ] = None
    cut: Annotated[
        bool,
        "True if this process, when it started, found an unreadable batch at the end of "
        "the replica's log and truncated the log there. A torn write and a flipped bit "
        "look the same.",
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedReplica:
    """A replica that does not follow its leader, because it would have to truncate acknowledged
    records.

    Either the leader lacks records that were acknowledged, or the replica has records that never
    were, and nobody has accepted a loss. A person must find out which of the two is right.
    """

    topic_id: Annotated[TopicId, "Kafka's id of the topic of the replica that refuses to follow."]
    partition: Annotated[
        PartitionIndex, "Number of the partition of the replica that refuses to follow."
    ]
    leader_epoch: Annotated[
        LeaderEpoch, "Leader epoch of the leader that the replica refuses to follow."
    ]
    log_end_offset: Annotated[Offset, "The offset after the last record of the replica's log."]
    high_watermark: Annotated[
        Offset, "High watermark that the replica knows: records below it were acknowledged."
    ]
    message: Annotated[str, "Why the replica refuses to follow its leader.", Length(1_024)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceAcknowledgement:
    """A leader's confirmation that it refuses writes and that all its records are committed."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic whose writes are refused."]
    partition: Annotated[PartitionIndex, "Number of the partition whose writes are refused."]
    fence: Annotated[FenceNumber, "Number of the order to refuse writes, from the PartitionMap."]
    session: Annotated[Session, "Session of the leader that refuses the writes."]
    leader_epoch: Annotated[LeaderEpoch, "Leader epoch in which this broker leads the partition."]
    log_end_offset: Annotated[
        Offset, "Log end offset of the partition, which equals its high watermark."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPartition:
    """A leader's proof that the data of the partition's leftovers is not needed any more.

    Every replica in the map has fetched in this leader epoch, at the offset at which it began or
    above. So each of them has stored this map or a later one, and has every committed record, on
    disk.
    """

    topic_id: Annotated[TopicId, "Kafka's id of the topic of the partition that was moved."]
    partition: Annotated[PartitionIndex, "Number of the partition that was moved."]
    session: Annotated[Session, "Session of the leader that reports this."]
    leader_epoch: Annotated[LeaderEpoch, "Leader epoch in which the replicas have fetched."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedReplica:
    """Confirms that the broker has no data of a partition any more, as its map orders."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic of the removed replica."]
    partition: Annotated[PartitionIndex, "Number of the partition of the removed replica."]
    partition_epoch: Annotated[
        PartitionEpoch,
        "The partitionEpoch of the map whose order was carried out.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedTopic:
    """Confirms that all records that the broker had of a topic when its durability became Fsync are
    on disk.
    """

    topic_id: Annotated[TopicId, "Kafka's id of the topic that was synced to disk."]
    durability_switch: Annotated[
        SwitchNumber,
        "Number of the topic's durability change, from spec.durabilitySwitch of its PartitionMap.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchAnswer:
    """Answer to an order to fetch a replica again. It is kept as long as the order."""

    run: Annotated[
        str,
        "Name of the Spark application: run of the entry in spec.refetches that is answered.",
        Length(253, minimum=1),
    ]
    topic_id: Annotated[TopicId, "Topic id of the entry in spec.refetches that is answered."]
    partition: Annotated[
        PartitionIndex, "Partition of the entry in spec.refetches that is answered."
    ]
    refusal: Annotated[
        str,
        "Why the order was refused. Empty if it was accepted: the replica is listed as damaged "
        "until its new copy is complete, and the damaged files are kept next to it.",
        Length(1_024),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """State that the broker reports."""

    incarnation: Annotated[
        Incarnation | None, "Random name of the broker's process that writes this status."
    ] = None
    session: Annotated[
        Session | None,
        "The session in which this process knows that it was admitted; not set before.",
    ] = None
    version: Annotated[str | None, "Version of the broker's software.", Length(64)] = None
    rack: Annotated[str | None, "The rack that the broker reports to clients.", Length(253)] = None
    draining: Annotated[
        bool, "True if the process was asked to stop and waits until its leaderships have moved."
    ] = False
    directories: Annotated[
        tuple[DataDirectory, ...],
        "The broker's data directories, as found when its process started.",
        Items(MAX_DATA_DIRECTORIES, key=("storageUUID",)),
    ] = ()
    proposals: Annotated[
        tuple[IsrProposal, ...],
        "Changes of in-sync replicas that the broker proposes as a leader, oldest first.",
        Items(MAX_PROPOSALS, key=("topicId", "partition")),
    ] = ()
    requests: Annotated[
        tuple[AdminRequest, ...],
        "Requests of Kafka clients for the operator.",
        Items(MAX_ADMIN_REQUESTS, key=("id",)),
    ] = ()
    replica_reports: Annotated[
        tuple[ReplicaReport, ...],
        "State of the replicas on the broker's disk, for partitions whose PartitionMap "
        "is older than the disk or asks for reports (reportsWanted).",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    halted_replicas: Annotated[
        tuple[HaltedReplica, ...],
        "Replicas that refuse to follow their leader because acknowledged records would be lost.",
        Items(MAX_DAMAGED_PARTITIONS, key=("topicId", "partition")),
    ] = ()
    maps_checked: Annotated[
        str | None,
        "The last spec.mapsCheck for which the broker listed all PartitionMaps and "
        "compared them with its disk. Every partition for which its disk was newer is "
        "in status.replicaReports.",
        Length(64),
    ] = None
    fenced_partitions: Annotated[
        tuple[FenceAcknowledgement, ...],
        "Partitions that the broker leads and whose writes it refuses, as the fence in "
        "their PartitionMap orders.",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    refetches: Annotated[
        tuple[RefetchAnswer, ...],
        "The broker's answers to the orders in spec.refetches.",
        Items(MAX_REFETCHES, key=("topicId", "partition")),
    ] = ()
    settled_partitions: Annotated[
        tuple[SettledPartition, ...],
        "Partitions that the broker leads, and whose replicas outside of spec.replicas may be "
        "deleted.",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    removed_replicas: Annotated[
        tuple[RemovedReplica, ...],
        "Replicas that a reassignment has removed from this broker and whose data it has deleted, "
        "while the PartitionMap still lists them as leftovers.",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    flushed_topics: Annotated[
        tuple[FlushedTopic, ...],
        "Topics that the broker has synced to disk since their durability changed to Fsync.",
        Items(MAX_PROPOSALS, key=("topicId",)),
    ] = ()
    confirmed_tombstones: Annotated[
        tuple[TopicId, ...],
        "Ids of deleted topics of which the broker has no data any more.",
        Items(MAX_TOMBSTONES * 10, unique=True),
    ] = ()
    listener_certificates: Annotated[
        tuple[ListenerCertificate, ...],
        "What the broker shows, and which clients it lets in, at each listener with TLS. The "
        "listener of brokers among themselves is internal; if it is missing, the broker uses plain "
        "text with other brokers and the operator.",
        Items(MAX_ENDPOINTS, key=("listener",)),
    ] = ()
    message: Annotated[
        str,
        "What the broker is doing, for people, like the progress of log recovery.",
        Length(MAX_MESSAGE_LENGTH),
    ] = ""

    @property
    def uses_tls_with_peers(self) -> bool:
        """Whether the process uses TLS with other brokers and the operator. Its first status says
        so, before it is admitted."""
        return any(one.listener == INTERNAL_LISTENER_NAME for one in self.listener_certificates)
