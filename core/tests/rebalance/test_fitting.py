"""A proposal that is too large for a status."""

import json

from chiplog_core.rebalance.documents import Json
from chiplog_core.rebalance.fitting import fitted


def test_a_summary_that_is_too_large_loses_what_is_only_to_be_inspected() -> None:
    moves = [{"topic": "a", "partition": index} for index in range(10)]
    summary: Json = {
        "partitions": ["p" * 1_000],
        "skew": ["s" * 1_000],
        "leaderMoves": moves,
        "replicaMoves": ["r" * 1_000],
        "reassignment": {"version": 1, "partitions": ["r" * 1_000]},
        "numReplicaMovements": 3,
    }

    assert fitted(summary, 10_000) == summary
    assert fitted(summary, 4_000) == {**summary, "partitions": []}
    assert fitted(summary, 1_800)["replicaMoves"] == summary["replicaMoves"]
    smallest = fitted(summary, 900)
    assert smallest["leaderMoves"] == moves
    assert smallest["reassignment"]["partitions"] == smallest["replicaMoves"] == []
    assert "of 3 replicas" in smallest["reassignmentMessage"]
    assert len(json.dumps(smallest)) < 900
