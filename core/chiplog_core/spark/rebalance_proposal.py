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
)
from chiplog_core.model.references import ReplicaList, TopicName
from chiplog_core.model.spark_result import MAX_MESSAGE_LENGTH, Result
from chiplog_core.model.spark_run import Count, Coverage
from chiplog_core.rebalance.replicas import MAX_REPLICA_MOVES
from chiplog_core.rebalance.status import moves_of

NOT_MOVED = (
    "replicas cannot be moved yet, so the proposal's {count} replica moves ({megabytes} MB) are "
    "skipped"
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
    reassignment: Reassignment = field(default_factory=Reassignment)
    reassignment_message: Annotated[str, Length(MAX_MESSAGE_LENGTH)] = ""
    figures: Figures
    hot_keys: Annotated[tuple[HotKey, ...], Items(MAX_HOT_KEYS)] = ()
    advice: Annotated[tuple[PartitionAdvice, ...], Items(MAX_PARTITION_ADVICE, key=("topic",))] = ()
    coverage: Coverage = field(default_factory=Coverage)
    data_to_move_mb: Count = 0
    num_replica_movements: Count = 0
    num_leader_movements: Count = 0
    on_demand_balancedness_score_before: Percent | None = None
    on_demand_balancedness_score_after: Percent | None = None
    monitored_partitions_percentage: Percent | None = None


def proposal_of(result: Result, made_at: datetime) -> Proposal:
    """The proposal in a job's result. Raises `UnreadableDocument`.

    Replica moves cannot be carried out by the operator; the proposal only shows them, as input for
    kafka-reassign-partitions.sh. So it is executable if it has leader moves, or no moves at all.
    """
    summary = result.summary_as(RebalanceSummary)
    message, reassignment = "", ""
    if summary.num_replica_movements:
        message = NOT_MOVED.format(
            count=summary.num_replica_movements, megabytes=summary.data_to_move_mb
        )
        if summary.reassignment.partitions:
            reassignment = json.dumps(write(summary.reassignment))
    if len(reassignment) > MAX_REASSIGNMENT_LENGTH:
        message = (
            f"{message}; their list in status.proposal.reassignment is left out, because it is "
            "too long: exclude topics with spec.excludedTopics"
        )
        reassignment = ""
    proposal = Proposal(
        id=result.application,
        made_at=made_at,
        executable=bool(summary.leader_moves) or not summary.num_replica_movements,
        message=message,
        leader_moves=summary.leader_moves,
        reassignment=reassignment,
        figures=summary.figures,
        hot_keys=summary.hot_keys,
        advice=summary.advice,
        coverage=summary.coverage,
        data_to_move_mb=summary.data_to_move_mb,
        num_replica_movements=summary.num_replica_movements,
        num_leader_movements=summary.num_leader_movements,
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
    before = proposal.on_demand_balancedness_score_before
    after = proposal.on_demand_balancedness_score_after
    if before is not None and after is not None:
        parts.append(f"score {before} of 100 before and {after} after")
    if proposal.message:
        parts.append(proposal.message)
    return "; ".join(parts)
