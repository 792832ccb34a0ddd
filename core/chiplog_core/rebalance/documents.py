"""Proposals as JSON, the form they have in the job's result and in the status of a Rebalance.

Lists are limited and have the most important entries first; a count next to a list says how many
entries there were. All numbers except those of skew are whole, because the status has whole numbers
only; a share is rounded down and a deviation up.
"""

import base64
from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Any, Final

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.rebalance.figures import BrokerFigures
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.proposal import FoundKey, Proposal
from chiplog_core.rebalance.replicas import ReplicaChange

MAX_HOT_KEYS: Final = 20
MAX_ADVICE: Final = 50
MAX_SKEWS: Final = 50
MAX_EXCLUDED: Final = 100
MAX_KEY_CHARACTERS: Final = 200
BASE64_PREFIX: Final = "base64:"

Json = dict[str, Any]


def proposal_json(proposal: Proposal) -> Json:
    """The proposal as JSON. Fields that Cruise Control has, too, have its names."""
    return {
        "leaderMoves": [leader_move_json(move) for move in proposal.leader_moves],
        "replicaMoves": [replica_change_json(change) for change in proposal.replica_changes],
        "reassignment": reassignment_json(proposal.replica_changes),
        "reassignmentMessage": "",
        "capacityMessage": proposal.capacity_message,
        "figures": {
            "before": [_figures(broker) for broker in proposal.before],
            "after": [_figures(broker) for broker in proposal.after],
        },
        "hotKeys": [_hot_key(hot_key) for hot_key in proposal.hot_keys[:MAX_HOT_KEYS]],
        "numHotKeys": len(proposal.hot_keys),
        "advice": [
            {
                "topic": advice.topic,
                "partitions": advice.partitions,
                "advisedPartitions": advice.advised_partitions,
                "reasons": [reason.value for reason in advice.reasons],
                "message": advice.message,
            }
            for advice in proposal.advice[:MAX_ADVICE]
        ],
        "skew": [
            {
                "topic": skew.topic,
                "partitions": skew.partitions,
                "bytes": skew.bytes,
                "records": skew.records,
                "bytesPerSecond": skew.bytes_per_second,
            }
            for skew in proposal.skews[:MAX_SKEWS]
        ],
        "dataToMoveMB": proposal.data_to_move_mb,
        "numReplicaMovements": len(proposal.replica_moves),
        "numLeaderMovements": proposal.num_leader_movements,
        "onDemandBalancednessScoreBefore": round(proposal.score_before),
        "onDemandBalancednessScoreAfter": round(proposal.score_after),
        "excludedTopics": list(proposal.excluded_topics[:MAX_EXCLUDED]),
        "numPinnedPartitions": proposal.num_pinned_partitions,
        "monitoredPartitionsPercentage": floor(proposal.monitored_percentage),
        "leaderRateDeviationPercent": ceil(proposal.leader_rate_deviation_percent),
        "leaderCountDeviationPercent": ceil(proposal.leader_count_deviation_percent),
    }


def leader_move_json(move: LeaderMove) -> Json:
    """The move as JSON, with the state of the partition for which it was made."""
    return {
        "topic": move.name.topic,
        "partition": move.name.partition,
        "from": move.from_broker,
        "to": move.to_broker,
        "replicas": list(move.replicas),
        "expectedReplicas": list(move.expected_replicas),
        "leaderEpoch": move.leader_epoch,
    }


def replica_change_json(change: ReplicaChange) -> Json:
    """The new replicas of a partition as JSON, with those for which they were proposed."""
    return {
        "topic": change.name.topic,
        "partition": change.name.partition,
        "replicas": list(change.replicas),
        "expectedReplicas": list(change.expected_replicas),
    }


def read_leader_moves(found: Iterable[Mapping[str, Any]]) -> tuple[LeaderMove, ...]:
    """Parse leader moves that `leader_move_json` wrote. Raises `ValueError` for missing or wrong
    fields."""
    return tuple(_read_leader_move(item) for item in found)


def reassignment_json(changes: Iterable[ReplicaChange]) -> Json:
    """The new replicas in the form that kafka-reassign-partitions.sh reads."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": change.name.topic,
                "partition": change.name.partition,
                "replicas": list(change.replicas),
            }
            for change in changes
        ],
    }


def key_text(key: bytes) -> str:
    """The key as text if it is printable UTF-8, else as base64 with the prefix `base64:`; shortened
    if it is long. A text that begins like the prefix is encoded, too, so that it is unambiguous."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or not text.isprintable() or text.startswith(BASE64_PREFIX):
        text = BASE64_PREFIX + base64.b64encode(key).decode("ascii")
    return text if len(text) <= MAX_KEY_CHARACTERS else f"{text[: MAX_KEY_CHARACTERS - 1]}…"


def _figures(broker: BrokerFigures) -> Json:
    """The load of one broker as JSON."""
    return {
        "broker": broker.broker_id,
        "leaders": broker.leaders,
        "bytesPerSecond": round(broker.bytes_per_second),
        "recordsPerSecond": round(broker.records_per_second),
        "replicas": broker.replicas,
        "bytes": broker.bytes,
    }


def _hot_key(hot_key: FoundKey) -> Json:
    """A hot key as JSON, with its lowest and highest possible share in percent."""
    return {
        "topic": hot_key.name.topic,
        "partition": hot_key.name.partition,
        "key": key_text(hot_key.key.key),
        "share": floor(100 * hot_key.share),
        "shareAtMost": ceil(100 * hot_key.share_at_most),
        "records": hot_key.key.records,
        "recordsAtMost": hot_key.key.records_at_most,
    }


def _read_leader_move(found: Mapping[str, Any]) -> LeaderMove:
    """Parse one leader move. Raises `ValueError` for missing or wrong fields."""
    try:
        name = PartitionName(str(found["topic"]), PartitionIndex(int(found["partition"])))
        return LeaderMove(
            name=name,
            from_broker=BrokerId(int(found["from"])),
            to_broker=BrokerId(int(found["to"])),
            replicas=tuple(BrokerId(int(item)) for item in found["replicas"]),
            expected_replicas=tuple(BrokerId(int(item)) for item in found["expectedReplicas"]),
            leader_epoch=LeaderEpoch(int(found["leaderEpoch"])),
        )
    except KeyError as missing:
        raise ValueError(f"leaderMoves: an entry has no {missing}") from None
    except (AssertionError, IndexError, TypeError, ValueError) as problem:
        raise ValueError(f"leaderMoves: {found!r}: {problem}") from None
