"""The proposal in the result of a measuring job, as the status of its Rebalance shows it."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from chiplog_core.ids import PartitionIndex
from chiplog_core.limits import (
    MAX_HOT_KEYS,
    MAX_LEADER_MOVES,
    MAX_PARTITION_ADVICE,
    MAX_REASSIGNMENT_LENGTH,
    MAX_REPLICA_MOVES,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.manifest.writing import write
from chiplog_core.model.rebalance_status import (
    Figures,
    HotKey,
    LeaderMove,
    PartitionAdvice,
    Percent,
    Proposal,
    ReplicaMove,
)
from chiplog_core.model.references import ReplicaList, TopicName
from chiplog_core.model.spark_result import MAX_MESSAGE_LENGTH, Result
from chiplog_core.model.spark_run import Count, Coverage
from chiplog_core.rebalance.status import moves_of

LEFT_OUT = (
    "the list of the {count} replica moves ({megabytes} MB) is too long, so they are left out: "
    "exclude topics with spec.excludedTopics"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassigned:
    """A partition and the replicas that it should have, in order."""

    topic: TopicName
    partition: PartitionIndex
    replicas: ReplicaList


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """The JSON input of kafka-reassign-partitions.sh."""

    version: Annotated[int, Range(1, 1)] = 1
    partitions: Annotated[tuple[Reassigned, ...], Items(MAX_REPLICA_MOVES)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSummary:
    """The fields of a job's result, as `rebalance.documents.proposal_json` writes them."""

    leader_moves: Annotated[
        tuple[LeaderMove, ...], Items(MAX_LEADER_MOVES, key=("topic", "partition"))
    ]
    replica_moves: Annotated[
        tuple[ReplicaMove, ...], Items(MAX_REPLICA_MOVES, key=("topic", "partition"))
    ] = ()
    reassignment: Reassignment = field(default_factory=Reassignment)
    reassignment_message: Annotated[str, Length(MAX_MESSAGE_LENGTH)] = ""
    capacity_message: Annotated[str, Length(MAX_MESSAGE_LENGTH)] = ""
    figures: Figures
    hot_keys: Annotated[tuple[HotKey, ...], Items(MAX_HOT_KEYS)] = ()
    advice: Annotated[tuple[PartitionAdvice, ...], Items(MAX_PARTITION_ADVICE, key=("topic",))] = ()
    coverage: Coverage = field(default_factory=Coverage)
    data_to_move_mb: Count = 0
    num_replica_movements: Count = 0
    num_leader_movements: Count = 0
    num_pinned_partitions: Count = 0
    on_demand_balancedness_score_before: Percent | None = None
    on_demand_balancedness_score_after: Percent | None = None
    monitored_partitions_percentage: Percent | None = None


def proposal_of(result: Result, made_at: datetime) -> Proposal:
    """The proposal in a job's result. Raises `UnreadableDocument`.

    It is not executable if it should move replicas only, and their list is left out.
    """
    summary = result.summary_as(RebalanceSummary)
    message, reassignment = summary.capacity_message, ""
    is_left_out = bool(summary.num_replica_movements) and not summary.replica_moves
    if is_left_out:
        left_out = LEFT_OUT.format(
            count=summary.num_replica_movements, megabytes=summary.data_to_move_mb
        )
        message = f"{left_out}; {message}" if message else left_out
    if summary.reassignment.partitions:
        reassignment = json.dumps(write(summary.reassignment))
    if len(reassignment) > MAX_REASSIGNMENT_LENGTH:
        reassignment = ""  # the same moves are in replicaMoves
    proposal = Proposal(
        id=result.application,
        made_at=made_at,
        executable=bool(summary.leader_moves) or not is_left_out,
        message=message,
        leader_moves=summary.leader_moves,
        replica_moves=summary.replica_moves,
        reassignment=reassignment,
        figures=summary.figures,
        hot_keys=summary.hot_keys,
        advice=summary.advice,
        coverage=summary.coverage,
        data_to_move_mb=summary.data_to_move_mb,
        num_replica_movements=summary.num_replica_movements,
        num_leader_movements=summary.num_leader_movements,
        num_pinned_partitions=summary.num_pinned_partitions,
        on_demand_balancedness_score_before=summary.on_demand_balancedness_score_before,
        on_demand_balancedness_score_after=summary.on_demand_balancedness_score_after,
        monitored_partitions_percentage=summary.monitored_partitions_percentage,
    )
    # `moves_of` leaves out entries that change which brokers hold the partition.
    if len(moves_of(proposal)) != len(proposal.leader_moves):
        message = (
            "an entry of summary.leaderMoves does not only reorder the replicas of its partition"
        )
        raise UnreadableDocument(Flaw.INVALID, message)
    return proposal


def proposal_words(proposal: Proposal) -> str:
    """The effect of the proposal in one sentence."""
    moves = proposal.num_leader_movements
    reordered = len(proposal.leader_moves) - moves  # the leader stays, the replicas' order changes
    parts = [f"{moves} leaderships would move"]
    if reordered > 0:
        parts.append(f"{reordered} stay, but their replicas must be reordered")
    if not proposal.leader_moves:
        parts = ["no leadership needs to move"]
    if proposal.replica_moves:
        parts.append(
            f"{proposal.num_replica_movements} replicas of {len(proposal.replica_moves)} "
            f"partitions would move ({proposal.data_to_move_mb} MB)"
        )
    if proposal.num_pinned_partitions:
        parts.append(
            f"{proposal.num_pinned_partitions} partitions stay where spec.assignments of their "
            "Topics places them"
        )
    before = proposal.on_demand_balancedness_score_before
    after = proposal.on_demand_balancedness_score_after
    if before is not None and after is not None:
        parts.append(f"score {before} of 100 before and {after} after")
    if proposal.message:
        parts.append(proposal.message)
    return "; ".join(parts)
