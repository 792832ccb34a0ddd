"""The status of a Rebalance: what was measured, what is proposed, how far it was carried out."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import MAX_INT64, BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.limits import (
    MAX_CONDITIONS,
    MAX_HOT_KEYS,
    MAX_LABEL_LENGTH,
    MAX_LEADER_MOVES,
    MAX_MESSAGE_LENGTH,
    MAX_PARTITION_ADVICE,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_PROPOSAL_BROKERS,
    MAX_REASSIGNMENT_LENGTH,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.conditions import Condition
from chiplog_core.model.references import ObjectName, ReplicaList, TopicName
from chiplog_core.model.spark_run import (
    ApplicationStatus,
    Count,
    Coverage,
    Digest,
    Outcome,
    RunNumber,
)

Percent = Annotated[int, Range(0, 100)]


class RebalanceState(StrEnum):
    """The states of a Rebalance, as users of Strimzi know them."""

    NEW = "New"
    PENDING_PROPOSAL = "PendingProposal"
    PROPOSAL_READY = "ProposalReady"
    REBALANCING = "Rebalancing"
    STOPPED = "Stopped"
    NOT_READY = "NotReady"
    READY = "Ready"
    RECONCILIATION_PAUSED = "ReconciliationPaused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """A leadership that goes to another replica, or only the order of replicas; no data is
    copied for it."""

    topic: Annotated[TopicName, "Name of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    from_: Annotated[BrokerId, "Id of the broker that leads it."]
    to: Annotated[BrokerId, "Id of the replica that is to lead it."]
    replicas: Annotated[ReplicaList, "Its replicas in their new order, the leader first."]
    expected_replicas: Annotated[
        ReplicaList, "The order they had when this was measured; in another one, nothing is moved."
    ]
    leader_epoch: Annotated[LeaderEpoch, "The leader epoch it had when this was measured."]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """What one broker does."""

    broker: Annotated[BrokerId, "Id of the broker."]
    leaders: Annotated[Count, "Partitions it leads."] = 0
    bytes_per_second: Annotated[Count, "Bytes that are written to them."] = 0
    records_per_second: Annotated[Count, "Records that are written to them."] = 0
    bytes: Annotated[Count, "Bytes of its replicas."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The brokers' load before, and after what is proposed."""

    before: Annotated[
        tuple[BrokerLoad, ...],
        "As it was measured.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()
    after: Annotated[
        tuple[BrokerLoad, ...],
        "As it would be.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key that so many records have that no placement can even them out."""

    topic: Annotated[TopicName, "Name of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition that has it."]
    key: Annotated[str, "The key; base64: and its bytes where it is no text.", Length(1_024)]
    share: Annotated[Percent, "Percent of the partition's records."] = 0
    records: Annotated[Count, "How many records have it."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdvice:
    """A number of partitions that would fit a topic better."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[int, "How many it has.", Range(1, MAX_PARTITIONS_PER_TOPIC)]
    advised_partitions: Annotated[int, "How many fit it.", Range(1, MAX_PARTITIONS_PER_TOPIC)]
    message: Annotated[str, "Why that many.", Length(4_096)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would even out the load, with figures from the data itself."""

    id: Annotated[
        ObjectName, "Its name, for spec.approvedProposal: that of the application that made it."
    ]
    made_at: Annotated[datetime | None, "When it was made."] = None
    executable: Annotated[
        bool,
        "Whether it can be carried out. What it says of replicas is left out in any case: they "
        "cannot be moved yet.",
    ] = False
    message: Annotated[
        str, "What of it cannot be carried out, and why.", Length(MAX_MESSAGE_LENGTH)
    ] = ""
    leader_moves: Annotated[
        tuple[LeaderMove, ...],
        "Leaderships that go to another replica.",
        Items(MAX_LEADER_MOVES, key=("topic", "partition")),
    ] = ()
    reassignment: Annotated[
        str,
        "Replicas that would move, as kafka-reassign-partitions.sh takes them; empty where none.",
        Length(MAX_REASSIGNMENT_LENGTH),
    ] = ""
    figures: Annotated[Figures | None, "The brokers' load before and after."] = None
    hot_keys: Annotated[
        tuple[HotKey, ...], "Keys with more records than an even share.", Items(MAX_HOT_KEYS)
    ] = ()
    advice: Annotated[
        tuple[PartitionAdvice, ...],
        "Numbers of partitions that would fit better.",
        Items(MAX_PARTITION_ADVICE, key=("topic",)),
    ] = ()
    coverage: Annotated[Coverage | None, "How much was read for it."] = None
    data_to_move_mb: Annotated[Count, "Data that would be copied, in MB."] = 0
    num_replica_movements: Annotated[Count, "Replicas that would move."] = 0
    num_leader_movements: Annotated[Count, "Leaderships that would move."] = 0
    on_demand_balancedness_score_before: Annotated[
        Percent | None, "How even the load is, of 100."
    ] = None
    on_demand_balancedness_score_after: Annotated[
        Percent | None, "How even it would be, of 100."
    ] = None
    monitored_partitions_percentage: Annotated[
        Percent | None, "Percent of the partitions that were measured."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesStatus:
    """How far an approved proposal was carried out."""

    proposal: Annotated[ObjectName, "Id of the proposal."]
    done: Annotated[Count, "Leaderships that are where they are to be."] = 0
    total: Annotated[Count, "Leaderships that were to be moved."] = 0
    left_out: Annotated[
        Count, "Those that stay, because their partitions have become others meanwhile."
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStatus:
    """What was measured, what is proposed, and how far it was carried out."""

    observed_generation: Annotated[
        int | None, "The metadata.generation this status was made from.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "One of the types is the state, like ProposalReady; Ready says whether an approved "
        "proposal was carried out.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    state: Annotated[RebalanceState | None, "Where it stands."] = None
    resumes: Annotated[
        RebalanceState | None, "Where it goes on when it is not paused any more."
    ] = None
    runs: Annotated[RunNumber, "How many times it was measured."] = 0
    wish: Annotated[Digest, "Digest of the part of the spec that was last measured for."] = ""
    application: Annotated[
        ApplicationStatus | None, "The Spark application that measures, or did last."
    ] = None
    started_at: Annotated[datetime | None, "When measuring was begun."] = None
    finished_at: Annotated[datetime | None, "When it was over; not set while it is under way."] = (
        None
    )
    proposal: Annotated[Proposal | None, "What would even out the load."] = None
    moves: Annotated[MovesStatus | None, "How far an approved proposal was carried out."] = None
    outcome: Annotated[
        Outcome | None, "How the last thing ended that was asked for: measuring, approval, moves."
    ] = None
    answered: Annotated[
        str,
        "The value of the annotation chiplog.dev/rebalance that was acted upon; it is about to be "
        "taken away.",
        Length(MAX_LABEL_LENGTH),
    ] = ""
