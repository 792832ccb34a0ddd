"""Checks where a replica begins and ends, against what an in-sync replica must have.

The ISR of the map says which replicas have everything below the high watermark. The start of a log
is up to each replica: it is moved by retention (`retention.ms` of the newest record of a segment,
`retention.bytes`), and by DeleteRecords, which the leader does first. So a replica that begins
later than the leader has lost its first segments only if retention cannot have deleted them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import PartitionFacts, ReplicaFacts
from chiplog_spark.verify.findings import Finding


@dataclass(frozen=True, slots=True)
class Front:
    """The leader's records below the log start offset of a replica."""

    newest_ms: int
    """The largest timestamp of these records in milliseconds; -1 if they have none."""
    replica_bytes: int
    """The bytes of the replica, as far as it was read."""


def check_front(facts: PartitionFacts, replica: ReplicaFacts, front: Front) -> Iterator[Finding]:
    """Yields a finding if a replica begins after the leader, and not because of retention."""
    begins_later = replica.start_offset > max(facts.start_offset, 0)
    if not (replica.in_sync and begins_later) or replica.broker == facts.leader:
        return
    if facts.deletes and may_be_expired(facts, front):
        return
    yield Finding(
        Check.MISSING_SEGMENT,
        facts.topic,
        facts.partition,
        facts.start_offset,
        replica.broker,
        f"the log begins at {replica.start_offset}, the leader's at {facts.start_offset}, but"
        " retention cannot have deleted the records in between yet",
    )


def may_be_expired(facts: PartitionFacts, front: Front) -> bool:
    """Whether retention may have deleted these records on a replica, but not yet on the leader."""
    if facts.retention_ms >= 0 and front.newest_ms < facts.planned_ms - facts.retention_ms:
        return True
    # Retention by size deletes a segment only if enough remains. Half allows for unread bytes.
    return facts.retention_bytes >= 0 and front.replica_bytes >= facts.retention_bytes // 2
