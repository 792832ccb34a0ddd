"""What a broker says of itself, in the status of its Broker object.

Everything here is a claim for the operator to judge, not a decision. Nothing that grows with the
number of records or of consumer groups is here.
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
    MAX_MESSAGE_LENGTH,
    MAX_PROPOSALS,
    MAX_REFETCHES,
    MAX_REPLICA_REPORTS,
    MAX_REPLICAS_PER_PARTITION,
    MAX_TOMBSTONES,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.references import TopicName

Bytes = Annotated[int, Range(0, MAX_INT64)]
Isr = Annotated[tuple[ReplicaRef, ...], Items(MAX_REPLICAS_PER_PARTITION, minimum=1, unique=True)]
SwitchNumber = Annotated[int, Range(0, MAX_INT32)]
FenceNumber = Annotated[int, Range(1, MAX_INT32)]


class Tail(StrEnum):
    """What a start found at the end of the logs of a data directory."""

    INTACT = "intact"
    SUSPECT = "suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPartition:
    """A replica whose stored data is known to be wrong. It does not lead and must be refetched."""

    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    file: Annotated[str, "File in which the damage was found.", Length(512)]
    offset: Annotated[Offset | None, "First offset that cannot be trusted."] = None
    message: Annotated[str, "What is wrong with it.", Length(1_024)] = ""
    refetching: Annotated[
        bool,
        "What was found was put aside, a copy is being fetched from the leader, and nobody takes "
        "it for what was found. It is in sync only by that leader's proposal, and leads when it is "
        "not in this list any more. False also for a copy that may still be listed for what the "
        "replica had before.",
    ] = False


class DamageKind(StrEnum):
    """How stored data is not what was written."""

    CHANGED = "Changed"
    TRUNCATED = "Truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDamage:
    """A replica that was found damaged, and may be whole again."""

    topic: Annotated[TopicName, "Name of the topic."]
    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    kind: Annotated[
        DamageKind,
        "Changed: bytes are not what was written. Truncated: the file ends too early, and what "
        "there is of it is as it was written.",
    ]
    file: Annotated[str, "File in which the damage was found.", Length(512)]
    offset: Annotated[Offset | None, "First offset that cannot be trusted, or is missing."] = None
    message: Annotated[str, "What is wrong with it.", Length(1_024)] = ""
    found_at: Annotated[datetime, "When it was found, by the broker's clock."]
    whole_at: Annotated[
        datetime | None, "When a copy was whole in its place; not set as long as there is none."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """One data directory as the broker found it at its start."""

    storage_uuid: Annotated[StorageUuid, "Its identity, from meta.properties."]
    tail: Annotated[
        Tail,
        "intact: nothing that was acknowledged from here can be missing (clean shutdown, only "
        "Fsync topics, or the page cache survived). suspect: it may be.",
    ]
    intact_since: Annotated[
        Session,
        "The oldest session since which every start found the directory intact. It vouches only "
        "for in-sync replicas named by this session or a later one.",
    ]
    went_back: Annotated[
        bool,
        "The volume is an older copy of the one that the broker had: restored from a snapshot, or "
        "rolled back by the storage. What was acknowledged since is not on it.",
    ] = False
    online: Annotated[
        bool, "False after a failed write or sync: the directory is not used any more."
    ] = True
    total_bytes: Annotated[Bytes | None, "Size of the volume."] = None
    usable_bytes: Annotated[Bytes | None, "Space left on the volume."] = None
    full: Annotated[
        bool,
        "Less is free than chiplog.disk.reserve.bytes says: producers are refused until there is "
        "room again.",
    ] = False
    damaged: Annotated[
        tuple[DamagedPartition, ...],
        "Replicas here whose data is known to be wrong.",
        Items(MAX_DAMAGED_PARTITIONS, key=("topicId", "partition")),
    ] = ()
    damage_history: Annotated[
        tuple[PastDamage, ...],
        "What this process has found damaged here, the newest first, also when it is whole again.",
        Items(MAX_DAMAGE_HISTORY),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A leader's wish to change the in-sync replicas of a partition.

    It is a promise: until the map shows a partitionEpoch above basePartitionEpoch, the leader
    neither changes nor withdraws it and waits for the old and the proposed replicas alike. The
    operator accepts it only if the map still equals what it names, and answers in any case, a
    refusal too, by raising partitionEpoch.
    """

    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    session: Annotated[Session, "Session of the leader."]
    leader_epoch: Annotated[LeaderEpoch, "Epoch in which it leads."]
    base_partition_epoch: Annotated[PartitionEpoch, "The partitionEpoch it builds on."]
    isr: Annotated[Isr, "The in-sync replicas it wishes for."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """What a broker's disk knows of a partition: the backup of the metadata.

    Written where the broker has applied more than the map says, as after a restore of etcd, and
    wherever the map asks for it by reportsWanted.
    """

    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    leader_epoch: Annotated[LeaderEpoch, "Highest leaderEpoch it has applied."]
    partition_epoch: Annotated[PartitionEpoch, "Highest partitionEpoch it has applied."]
    isr: Annotated[Isr, "The in-sync replicas that came with them."]
    unclean_epoch: Annotated[
        LeaderEpoch | None, "The uncleanEpoch that came with them; not set if there was none."
    ] = None
    log_leader_epoch: Annotated[
        LeaderEpoch | None,
        "Last leader epoch of its log, also where retention has emptied the log; not set if it "
        "never held anything.",
    ] = None
    log_end_offset: Annotated[Offset, "The offset after the last record of its log."]
    high_watermark: Annotated[
        Offset | None,
        "Records below it were committed, by the checkpoint that its start found. A log that ends "
        "below it has lost some.",
    ] = None
    cut: Annotated[
        bool,
        "The start of this process found a batch at the end of the log that did not read, and cut "
        "the log there. A write that was torn and a bit that changed look the same.",
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedReplica:
    """A replica that does not follow its leader: it would have to cut off acknowledged records.

    One of the two has lost or never had what the other one says was acknowledged, and nobody has
    accepted such a loss. Which of them is right a person has to find out.
    """

    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    leader_epoch: Annotated[LeaderEpoch, "Epoch of the leader that it does not follow."]
    log_end_offset: Annotated[Offset, "The offset after the last record of its log."]
    high_watermark: Annotated[Offset, "Records below it were acknowledged, as far as it knows."]
    message: Annotated[str, "What the leader answered.", Length(1_024)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceAcknowledgement:
    """A leader's word that it takes no more records and that all it has are committed."""

    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    fence: Annotated[FenceNumber, "Number of the fence, from the map."]
    session: Annotated[Session, "Session of the leader."]
    leader_epoch: Annotated[LeaderEpoch, "Epoch in which it leads."]
    log_end_offset: Annotated[Offset, "Its log end, which equals its high watermark."]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedTopic:
    """Everything the broker held of a topic when its durability became Fsync is on disk."""

    topic_id: Annotated[TopicId, "Id of the topic."]
    durability_switch: Annotated[SwitchNumber, "Number of the switch, from the map."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchAnswer:
    """What became of an order to fetch a replica anew. It stands as long as the order."""

    run: Annotated[str, "The order's run.", Length(253, minimum=1)]
    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    refusal: Annotated[
        str,
        "Why it is not done. Empty: the replica was taken out of use, is among the damaged ones "
        "until its copy is whole, and what was found stays beside it.",
        Length(1_024),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """What the broker says of itself."""

    incarnation: Annotated[
        Incarnation | None, "Random name of the process that writes this status."
    ] = None
    session: Annotated[
        Session | None, "The session this process knows it was admitted to; not set before."
    ] = None
    version: Annotated[str | None, "Version of the broker's software.", Length(64)] = None
    rack: Annotated[str | None, "The rack it tells clients.", Length(253)] = None
    draining: Annotated[
        bool, "It was asked to stop and waits for its leaderships to be taken away."
    ] = False
    directories: Annotated[
        tuple[DataDirectory, ...],
        "Its data directories as its start found them.",
        Items(MAX_DATA_DIRECTORIES, key=("storageUUID",)),
    ] = ()
    proposals: Annotated[
        tuple[IsrProposal, ...],
        "Changes of in-sync replicas it asks for, the oldest first.",
        Items(MAX_PROPOSALS, key=("topicId", "partition")),
    ] = ()
    requests: Annotated[
        tuple[AdminRequest, ...],
        "Clients' requests for the operator.",
        Items(MAX_ADMIN_REQUESTS, key=("id",)),
    ] = ()
    replica_reports: Annotated[
        tuple[ReplicaReport, ...],
        "What its disk knows, where the map knows less or asks.",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    halted_replicas: Annotated[
        tuple[HaltedReplica, ...],
        "Replicas that do not follow their leader, because acknowledged records would be lost.",
        Items(MAX_DAMAGED_PARTITIONS, key=("topicId", "partition")),
    ] = ()
    maps_checked: Annotated[
        str | None,
        "The spec.mapsCheck after which it listed all PartitionMaps and compared them with its "
        "disk: whatever it knew better then is in replicaReports, all of it.",
        Length(64),
    ] = None
    fenced_partitions: Annotated[
        tuple[FenceAcknowledgement, ...],
        "Partitions it leads whose fence it keeps.",
        Items(MAX_REPLICA_REPORTS, key=("topicId", "partition")),
    ] = ()
    refetches: Annotated[
        tuple[RefetchAnswer, ...],
        "Answers to spec.refetches.",
        Items(MAX_REFETCHES, key=("topicId", "partition")),
    ] = ()
    flushed_topics: Annotated[
        tuple[FlushedTopic, ...],
        "Topics it has synced to disk since they became Fsync.",
        Items(MAX_PROPOSALS, key=("topicId",)),
    ] = ()
    confirmed_tombstones: Annotated[
        tuple[TopicId, ...],
        "Deleted topics of which it holds nothing any more.",
        Items(MAX_TOMBSTONES * 10, unique=True),
    ] = ()
    message: Annotated[
        str, "What it wants people to know, like how far recovery is.", Length(MAX_MESSAGE_LENGTH)
    ] = ""
