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
    MAX_REPLICA_MOVES,
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

    topic: Annotated[TopicName, "Name of the topic of the partition whose leadership moves."]
    partition: Annotated[PartitionIndex, "Number of the partition whose leadership moves."]
    from_: Annotated[BrokerId, "Id of the broker that leads the partition."]
    to: Annotated[BrokerId, "Id of the broker that should lead the partition."]
    replicas: Annotated[
        ReplicaList,
        "Ids of the brokers with the partition's replicas in their new order, the new "
        "leader first.",
    ]
    expected_replicas: Annotated[
        ReplicaList,
        "Order of the partition's replicas when the load was measured; if it has "
        "changed after that, this leadership is not moved.",
    ]
    leader_epoch: Annotated[
        LeaderEpoch,
        "Leader epoch of the partition when the load was measured; if it has changed "
        "after that, this leadership is not moved.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMove:
    """The new replicas of a partition; its records are copied to those that are new."""

    topic: Annotated[TopicName, "Name of the topic of the partition whose replicas move."]
    partition: Annotated[PartitionIndex, "Number of the partition whose replicas move."]
    replicas: Annotated[
        ReplicaList, "Ids of the brokers that should have the replicas, the preferred leader first."
    ]
    expected_replicas: Annotated[
        ReplicaList,
        "Ids of the brokers that had the replicas when the load was measured; if they have "
        "changed after that, these replicas are not moved.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Load of one broker."""

    broker: Annotated[BrokerId, "Id of the broker whose load this is."]
    leaders: Annotated[Count, "Number of partitions that the broker leads."] = 0
    bytes_per_second: Annotated[
        Count, "Bytes per second written to the partitions that the broker leads."
    ] = 0
    records_per_second: Annotated[
        Count, "Records per second written to the partitions that the broker leads."
    ] = 0
    replicas: Annotated[Count, "Number of replicas, without those of internal topics."] = 0
    bytes: Annotated[Count, "Bytes stored in the broker's replicas."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The brokers' load before, and after what is proposed."""

    before: Annotated[
        tuple[BrokerLoad, ...],
        "Load of each broker as measured.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()
    after: Annotated[
        tuple[BrokerLoad, ...],
        "Load of each broker after the proposed moves.",
        Items(MAX_PROPOSAL_BROKERS, key=("broker",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key with at least 10 % of the records of its partition."""

    topic: Annotated[TopicName, "Name of the topic that contains the hot key."]
    partition: Annotated[PartitionIndex, "Number of the partition that contains the hot key."]
    key: Annotated[
        str, "The hot key as text; if it is not text, base64: and the encoded bytes.", Length(1_024)
    ]
    share: Annotated[Percent, "Percentage of the partition's records that have the hot key."] = 0
    records: Annotated[Count, "Number of checked records that have the hot key, at least."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdvice:
    """A recommended number of partitions for a topic."""

    topic: Annotated[TopicName, "Name of the topic that the recommendation is for."]
    partitions: Annotated[
        int, "Current number of partitions of the topic.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ]
    advised_partitions: Annotated[
        int, "Recommended number of partitions of the topic.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ]
    message: Annotated[str, "Reason for the recommended number of partitions.", Length(4_096)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would even out the load, with figures before and after."""

    id: Annotated[
        ObjectName,
        "Id for spec.approvedProposal. If a Spark job created the proposal, it is the name of its "
        "application.",
    ]
    made_at: Annotated[datetime | None, "When the proposal was created."] = None
    executable: Annotated[bool, "Whether the proposal can be carried out."] = False
    message: Annotated[
        str, "What of the proposal cannot be carried out, and why.", Length(MAX_MESSAGE_LENGTH)
    ] = ""
    leader_moves: Annotated[
        tuple[LeaderMove, ...],
        "Leaderships that move to another replica.",
        Items(MAX_LEADER_MOVES, key=("topic", "partition")),
    ] = ()
    replica_moves: Annotated[
        tuple[ReplicaMove, ...],
        "Partitions whose replicas move to other brokers, after the leader moves.",
        Items(MAX_REPLICA_MOVES, key=("topic", "partition")),
    ] = ()
    reassignment: Annotated[
        str,
        "The replica moves in the format of kafka-reassign-partitions.sh; empty if there are none.",
        Length(MAX_REASSIGNMENT_LENGTH),
    ] = ""
    figures: Annotated[
        Figures | None, "Load of each broker before and after the proposed moves."
    ] = None
    hot_keys: Annotated[
        tuple[HotKey, ...],
        "Hot keys: keys with at least 10 % of the records of their partition.",
        Items(MAX_HOT_KEYS),
    ] = ()
    advice: Annotated[
        tuple[PartitionAdvice, ...],
        "Recommended numbers of partitions of topics.",
        Items(MAX_PARTITION_ADVICE, key=("topic",)),
    ] = ()
    coverage: Annotated[Coverage | None, "How much data was read to measure the load."] = None
    data_to_move_mb: Annotated[Count, "Data that the replica moves would copy, in MB."] = 0
    num_replica_movements: Annotated[
        Count, "Number of replicas that would move to another broker."
    ] = 0
    num_leader_movements: Annotated[
        Count, "Number of leaderships that would move to another broker."
    ] = 0
    num_pinned_partitions: Annotated[
        Count,
        "Number of partitions that stay where they are, because spec.assignments of their Topics "
        "places them.",
    ] = 0
    on_demand_balancedness_score_before: Annotated[
        Percent | None, "How even the measured load is: 100 is even, 0 is all load on one broker."
    ] = None
    on_demand_balancedness_score_after: Annotated[
        Percent | None,
        "How even the load would be after the moves: 100 is even, 0 is all load on one broker.",
    ] = None
    monitored_partitions_percentage: Annotated[
        Percent | None, "Percentage of the partitions that were measured."
    ] = None

    @property
    def moved_topics(self) -> set[TopicName]:
        """The topics of all its moves."""
        return {move.topic for move in self.leader_moves} | {
            move.topic for move in self.replica_moves
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesStatus:
    """Progress of the approved proposal."""

    proposal: Annotated[ObjectName, "Id of the approved proposal, as in status.proposal.id."]
    done: Annotated[
        Count, "Number of moves that are done: of leaderships, and of partitions' replicas."
    ] = 0
    total: Annotated[Count, "Number of moves of the proposal."] = 0
    left_out: Annotated[
        Count,
        "Number of moves that were skipped because their partitions changed after the proposal.",
    ] = 0
    approved_at: Annotated[datetime | None, "When the proposal was approved."] = None
    finishes_at: Annotated[
        datetime | None,
        "Estimate of when all moves will be done, from the moves that are done; not set before the "
        "first.",
    ] = None


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
    state: Annotated[
        RebalanceState | None, "Current state of the Rebalance, like ProposalReady."
    ] = None
    resumes: Annotated[
        RebalanceState | None, "The state to which a paused Rebalance returns when it is resumed."
    ] = None
    runs: Annotated[RunNumber, "How many times the load was measured."] = 0
    wish: Annotated[
        Digest,
        "Digest of the part of the spec that the last measurement was for; the operator compares "
        "it to find changes of the spec.",
    ] = ""
    application: Annotated[
        ApplicationStatus | None,
        "The Spark application that measures the load, or the last one that did; not set if the "
        "brokers were asked.",
    ] = None
    started_at: Annotated[datetime | None, "When measuring the load started."] = None
    finished_at: Annotated[
        datetime | None, "When measuring the load ended; not set while it is running."
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
