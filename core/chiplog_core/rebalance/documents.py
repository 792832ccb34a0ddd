"""A proposal as JSON, as the job's result and the object's status hold it, and back.

Lists are bounded, the most important first; counts beside them say how many there were. All
numbers but those of skew are whole, as fields of Kubernetes objects are; a share is rounded down
and a deviation up.
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

MAX_HOT_KEYS: Final = 20
MAX_ADVICE: Final = 50
MAX_SKEWS: Final = 50
MAX_EXCLUDED: Final = 100
MAX_KEY_CHARACTERS: Final = 200
BASE64_PREFIX: Final = "base64:"

NOT_EXECUTABLE: Final = (
    "replica moves are not built yet: approval moves only leaderships; the reassignment is in "
    "Kafka's format"
)

Json = dict[str, Any]


def proposal_json(proposal: Proposal) -> Json:
    """Under the names of Cruise Control where it has one."""
    return {
        "leaderMoves": [leader_move_json(one) for one in proposal.leader_moves],
        "reassignment": reassignment_json(proposal.reassignment),
        "reassignmentExecutable": False,
        "reassignmentMessage": NOT_EXECUTABLE if proposal.reassignment else "",
        "figures": {
            "before": [_figures(one) for one in proposal.before],
            "after": [_figures(one) for one in proposal.after],
            "afterReplicaMoves": [_figures(one) for one in proposal.after_replica_moves],
        },
        "hotKeys": [_hot_key(one) for one in proposal.hot_keys[:MAX_HOT_KEYS]],
        "numHotKeys": len(proposal.hot_keys),
        "advice": [
            {
                "topic": one.topic,
                "partitions": one.partitions,
                "advisedPartitions": one.advised_partitions,
                "reasons": [reason.value for reason in one.reasons],
                "message": one.message,
            }
            for one in proposal.advice[:MAX_ADVICE]
        ],
        "skew": [
            {
                "topic": one.topic,
                "partitions": one.partitions,
                "bytes": one.bytes,
                "records": one.records,
                "bytesPerSecond": one.bytes_per_second,
            }
            for one in proposal.skews[:MAX_SKEWS]
        ],
        "dataToMoveMB": proposal.data_to_move_mb,
        "numReplicaMovements": len(proposal.replica_moves),
        "numLeaderMovements": proposal.num_leader_movements,
        "onDemandBalancednessScoreBefore": round(proposal.score_before),
        "onDemandBalancednessScoreAfter": round(proposal.score_after),
        "excludedTopics": list(proposal.excluded_topics[:MAX_EXCLUDED]),
        "monitoredPartitionsPercentage": floor(proposal.monitored_percentage),
        "leaderRateDeviationPercent": ceil(proposal.leader_rate_deviation_percent),
        "leaderCountDeviationPercent": ceil(proposal.leader_count_deviation_percent),
    }


def leader_move_json(move: LeaderMove) -> Json:
    """With the state of the partition that it was made for."""
    return {
        "topic": move.name.topic,
        "partition": move.name.partition,
        "from": move.from_broker,
        "to": move.to_broker,
        "replicas": list(move.replicas),
        "expectedReplicas": list(move.expected_replicas),
        "leaderEpoch": move.leader_epoch,
    }


def read_leader_moves(found: Iterable[Mapping[str, Any]]) -> tuple[LeaderMove, ...]:
    """What `leader_move_json` wrote; raises `ValueError` where something is missing or wrong."""
    return tuple(_read_leader_move(one) for one in found)


def reassignment_json(replicas: Mapping[PartitionName, tuple[BrokerId, ...]]) -> Json:
    """As kafka-reassign-partitions.sh reads it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": name.topic, "partition": name.partition, "replicas": list(brokers)}
            for name, brokers in sorted(replicas.items())
        ],
    }


def key_text(key: bytes) -> str:
    """A key as text where it is printable, else in base64 after a prefix that says so."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or not text.isprintable() or text.startswith(BASE64_PREFIX):
        text = BASE64_PREFIX + base64.b64encode(key).decode("ascii")
    return text if len(text) <= MAX_KEY_CHARACTERS else f"{text[: MAX_KEY_CHARACTERS - 1]}…"


def _figures(one: BrokerFigures) -> Json:
    return {
        "broker": one.broker_id,
        "leaders": one.leaders,
        "bytesPerSecond": round(one.bytes_per_second),
        "recordsPerSecond": round(one.records_per_second),
        "replicas": one.replicas,
        "bytes": one.bytes,
    }


def _hot_key(one: FoundKey) -> Json:
    return {
        "topic": one.name.topic,
        "partition": one.name.partition,
        "key": key_text(one.key.key),
        "share": floor(100 * one.share),
        "shareAtMost": ceil(100 * one.share_at_most),
        "records": one.key.records,
        "recordsAtMost": one.key.records_at_most,
    }


def _read_leader_move(found: Mapping[str, Any]) -> LeaderMove:
    try:
        name = PartitionName(str(found["topic"]), PartitionIndex(int(found["partition"])))
        return LeaderMove(
            name=name,
            from_broker=BrokerId(int(found["from"])),
            to_broker=BrokerId(int(found["to"])),
            replicas=tuple(BrokerId(int(one)) for one in found["replicas"]),
            expected_replicas=tuple(BrokerId(int(one)) for one in found["expectedReplicas"]),
            leader_epoch=LeaderEpoch(int(found["leaderEpoch"])),
        )
    except KeyError as missing:
        raise ValueError(f"leaderMoves: an entry has no {missing}") from None
    except (AssertionError, IndexError, TypeError, ValueError) as problem:
        raise ValueError(f"leaderMoves: {found!r}: {problem}") from None
