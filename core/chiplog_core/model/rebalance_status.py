"""The status of a Rebalance: measured load, proposed moves, and their progress."""

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
    """A leadership that moves to another replica, or a changed order of replicas; no data is
    copied.
    """

    topic: Annotated[TopicName, "Name of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    from_: Annotated[BrokerId, "Id of the broker that leads it."]
    to: Annotated[BrokerId, "Id of the broker that should lead it."]
    replicas: Annotated[ReplicaList, "Its replicas in their new order, the leader first."]
    expected_replicas: Annotated[
        ReplicaList,
        "The order of its replicas when the load was measured; if it has changed after that, this "
        "leadership is not moved.",
    ]
    leader_epoch: Annotated[LeaderEpoch, "The leader epoch it had when the load was measured."]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Load of one broker."""

    broker: Annotated[BrokerId, "Id of the broker."]
    leaders: Annotated[Count, "Number of partitions that it leads."] = 0
    bytes_per_second: Annotated[Count, "Bytes per second written to the partitions it leads."] = 0
    records_per_second: Annotated[
        Count, "Records per second written to the partitions it leads."
    ] = 0
    bytes: Annotated[Count, "Bytes stored in its replicas."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The brokers' load before, and after what is proposed."""

    before: Annotated[
        tuple[BrokerLoad, ...],
        "Load as measured.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()
    after: Annotated[
        tuple[BrokerLoad, ...],
        "Load after the moves.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key with at least 10 % of the records of its partition."""

    topic: Annotated[TopicName, "Name of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition that contains the key."]
    key: Annotated[str, "The key; if it is not text, base64: and the encoded bytes.", Length(1_024)]
    share: Annotated[Percent, "Percent of the partition's records."] = 0
    records: Annotated[Count, "How many records have it."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdvice:
    """A recommended number of partitions for a topic."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[int, "Current number of partitions.", Range(1, MAX_PARTITIONS_PER_TOPIC)]
    advised_partitions: Annotated[
        int, "Recommended number of partitions.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ]
    message: Annotated[str, "Reason for the recommendation.", Length(4_096)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would even out the load, with figures from the data itself."""

    id: Annotated[
        ObjectName,
        "Id for spec.approvedProposal: the name of the application that created the proposal.",
    ]
    made_at: Annotated[datetime | None, "When the proposal was created."] = None
    executable: Annotated[
        bool,
        "Whether it can be carried out. Replica moves are skipped in any case: they are not built "
        "yet.",
    ] = False
    message: Annotated[str, "What cannot be carried out, and why.", Length(MAX_MESSAGE_LENGTH)] = ""
    leader_moves: Annotated[
        tuple[LeaderMove, ...],
        "Leaderships that move to another replica.",
        Items(MAX_LEADER_MOVES, key=("topic", "partition")),
    ] = ()
    reassignment: Annotated[
        str,
        "Replicas that would move, in the format of kafka-reassign-partitions.sh; empty if there "
        "are none.",
        Length(MAX_REASSIGNMENT_LENGTH),
    ] = ""
    figures: Annotated[Figures | None, "Load of each broker before and after."] = None
    hot_keys: Annotated[
        tuple[HotKey, ...],
        "Hot keys: keys with at least 10 % of the records of their partition.",
        Items(MAX_HOT_KEYS),
    ] = ()
    advice: Annotated[
        tuple[PartitionAdvice, ...],
        "Recommended numbers of partitions.",
        Items(MAX_PARTITION_ADVICE, key=("topic",)),
    ] = ()
    coverage: Annotated[Coverage | None, "How much data was read to measure it."] = None
    data_to_move_mb: Annotated[Count, "Data that would be copied, in MB."] = 0
    num_replica_movements: Annotated[Count, "Replicas that would move."] = 0
    num_leader_movements: Annotated[Count, "Leaderships that would move."] = 0
    on_demand_balancedness_score_before: Annotated[
        Percent | None, "Balance of the load, from 0 to 100."
    ] = None
    on_demand_balancedness_score_after: Annotated[
        Percent | None, "Balance of the load after the moves, from 0 to 100."
    ] = None
    monitored_partitions_percentage: Annotated[
        Percent | None, "Percent of the partitions that were measured."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesStatus:
    """Progress of the approved proposal."""

    proposal: Annotated[ObjectName, "Id of the proposal."]
    done: Annotated[Count, "Leaderships that have been moved."] = 0
    total: Annotated[Count, "Leaderships to move."] = 0
    left_out: Annotated[
        Count, "Leaderships that were skipped because their partitions changed after the proposal."
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStatus:
    """The measured load, the proposal, and its progress."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "One condition type is the current state, like ProposalReady. Ready: an approved proposal "
        "was carried out.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    state: Annotated[RebalanceState | None, "Current state."] = None
    resumes: Annotated[RebalanceState | None, "The state to return to when it is resumed."] = None
    runs: Annotated[RunNumber, "How many times the load was measured."] = 0
    wish: Annotated[
        Digest,
        "Digest of the part of the spec that the last measurement was for; the operator compares "
        "it to find changes of the spec.",
    ] = ""
    application: Annotated[
        ApplicationStatus | None, "The Spark application that measures, or the last one that did."
    ] = None
    started_at: Annotated[datetime | None, "When measuring started."] = None
    finished_at: Annotated[
        datetime | None, "When measuring ended; not set while it is running."
    ] = None
    proposal: Annotated[Proposal | None, "Proposed moves that would balance the load."] = None
    moves: Annotated[MovesStatus | None, "Progress of the approved proposal."] = None
    outcome: Annotated[
        Outcome | None, "Result of the last requested step: measuring, approval or moves."
    ] = None
    answered: Annotated[
        str,
        "The value of the annotation chiplog.dev/rebalance that was handled; the operator is "
        "about to remove the annotation.",
        Length(MAX_LABEL_LENGTH),
    ] = ""
