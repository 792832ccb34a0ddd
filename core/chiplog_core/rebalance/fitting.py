"""Reduces the JSON of a proposal until it fits into a result and into the status of a Rebalance."""

import json
from typing import Final

from chiplog_core.rebalance.documents import Json

MAX_SUMMARY_BYTES: Final = 480 * 1024
"""A little less than the maximum of a result."""


def fitted(summary: Json, limit_bytes: int = MAX_SUMMARY_BYTES) -> Json:
    """The summary, reduced until its JSON has at most `limit_bytes`.

    First the lists that are only for information are emptied, one after the other. If that is not
    enough, the replica moves are removed, and a message says so.
    """
    fitting = dict(summary)
    no_reassignment = {"version": 1, "partitions": []}
    for name, empty in (("partitions", []), ("skew", []), ("reassignment", no_reassignment)):
        if len(json.dumps(fitting)) <= limit_bytes:
            return fitting
        fitting[name] = empty
    if len(json.dumps(fitting)) > limit_bytes:
        fitting["replicaMoves"] = []
        fitting["reassignmentMessage"] = (
            f"the reassignment of {summary['numReplicaMovements']} replicas is too large for the "
            "result: exclude topics with spec.excludedTopics, and measure again"
        )
    return fitting
