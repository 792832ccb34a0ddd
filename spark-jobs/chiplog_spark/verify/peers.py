"""Compares the batches of one partition on all its replicas, in the order of offsets.

Below the high watermark replicas have the same bytes, because a follower stores what its leader
sent. So it is sufficient to compare digests. If they differ, the minority is reported; without a
majority, the replicas that differ from the leader.

Rows are sorted by base offset, so memory is limited by the number of replicas. Offsets that one
replica lacks and another has are a missing segment; offsets that all lack are a gap.
"""

from collections.abc import Iterator, Mapping

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.continuity import Continuity
from chiplog_spark.verify.covered import Covered
from chiplog_spark.verify.crc import check_crc
from chiplog_spark.verify.epochs import EpochOrder
from chiplog_spark.verify.extent import Front, check_front
from chiplog_spark.verify.facts import UNKNOWN, Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.majority import disagreeing_replicas
from chiplog_spark.verify.times import AppendOrder
from chiplog_spark.verify.transactions import Transactions


class _Replica:
    """The state of one replica during the comparison."""

    def __init__(self, facts: PartitionFacts, broker: int, covered: Covered) -> None:
        self.covered = covered
        start = covered.ranges[0][0] if covered.ranges else 0
        self.continuity = Continuity(facts, broker, start, may_have_gaps=facts.compacts)
        self.range = covered.ranges[0] if covered.ranges else (0, 0)
        known = facts.replica(broker)
        self.follows_unread = known is not None and start > known.start_offset
        self.orders = (EpochOrder(facts, broker), AppendOrder(facts, broker))
        # Whether every batch of the replica is read, so that all open transactions are known.
        is_whole = not self.follows_unread and covered.holds(start, facts.end_offset)
        self.transactions = Transactions(facts, broker, start, is_whole=is_whole)
        self.bases = (UNKNOWN, UNKNOWN)
        """The base offsets of the last two batches."""
        self.held_bytes = 0
        self.newest_before_ms = UNKNOWN
        """The newest timestamp of the leader's records below this replica's log start offset."""


class Peers:
    """Compares the replicas of a partition.

    Call `check_next` for every batch of each replica, then `finish`.
    """

    def __init__(self, facts: PartitionFacts, covered: Mapping[int, Covered]) -> None:
        """`covered` are the ranges read of each replica."""
        self._facts = facts
        self._replicas = {
            broker: _Replica(facts, broker, ranges) for broker, ranges in sorted(covered.items())
        }
        self._in_sync = {replica.broker for replica in facts.replicas if replica.in_sync}
        self._late = [
            replica
            for replica in facts.replicas
            if replica.broker in self._replicas and replica.start_offset > facts.start_offset
        ]
        self._group: list[Batch] = []

    def check_next(self, batch: Batch) -> Iterator[Finding]:
        """Check the next batch, in the order of base offset and then replica."""
        if self._group and batch.base_offset != self._group[0].base_offset:
            yield from self._close_group()
        self._group.append(batch)
        yield from check_crc(self._facts, batch)
        yield from self._check_replica(self._replicas[batch.replica], batch)

    def finish(self) -> Iterator[Finding]:
        """Yields the findings that need all batches, like missing ends."""
        yield from self._close_group()
        for broker, replica in self._replicas.items():
            yield from self._close_range(broker, replica)
            yield from replica.transactions.finish()
        for known in self._late:
            late = self._replicas[known.broker]
            yield from check_front(
                self._facts, known, Front(late.newest_before_ms, late.held_bytes)
            )

    # --- one replica ------------------------------------------------------------------

    def _check_replica(self, replica: _Replica, batch: Batch) -> Iterator[Finding]:
        """Check a batch against the earlier batches of the same replica."""
        replica.held_bytes += batch.size_bytes
        if batch.base_offset >= replica.range[1]:
            found = replica.covered.range_at(batch.base_offset)
            if found is not None and found != replica.range:
                yield from self._close_range(batch.replica, replica)
                replica.range, replica.follows_unread = found, True
                replica.transactions.forget()
        if replica.follows_unread:
            # The first batch of the range may begin in the previous split, which was not read.
            replica.continuity.begin(max(replica.range[0], batch.base_offset))
            replica.follows_unread = False
        for finding in replica.continuity.check_next(batch):
            is_hole = finding.check is Check.OFFSET_GAP
            yield self._classified(finding) if is_hole else finding
        for order in replica.orders:
            yield from order.check_next(batch)
        yield from replica.transactions.check_next(batch)
        replica.bases = (replica.bases[1], batch.base_offset)
        if batch.replica == self._facts.leader:
            for known in self._late:
                if batch.base_offset < known.start_offset:
                    late = self._replicas[known.broker]
                    late.newest_before_ms = max(late.newest_before_ms, batch.max_timestamp_ms)

    def _close_range(self, broker: int, replica: _Replica) -> Iterator[Finding]:
        """Yields a finding if the last offsets of a range that was read are missing."""
        continuity, end = replica.continuity, replica.range[1]
        if continuity.expected >= end or continuity.may_have_gaps:
            return
        hole = continuity.hole(end)
        if end < self._facts.end_offset:
            yield self._classified(hole)
            return
        known = self._facts.replica(broker)
        if known is None or known.in_sync:
            message = (
                f"the log ends at {hole.offset}, but an in-sync replica has all records below"
                f" the high watermark {end}"
            )
            yield hole._replace(check=Check.TRUNCATED_TAIL, message=message)

    def _classified(self, hole: Finding) -> Finding:
        """A finding on missing offsets: a missing segment if another replica has them."""
        holders = [
            broker
            for broker, other in self._replicas.items()
            if broker != hole.replica
            and any(hole.offset <= base < hole.until for base in other.bases)
        ]
        if not holders:
            return hole
        message = f"{hole.message}; {_brokers(holders)} them"
        return hole._replace(check=Check.MISSING_SEGMENT, message=message)

    # --- replicas compared with each other ----------------------------------------------

    def _close_group(self) -> Iterator[Finding]:
        """Compare the batches with the same base offset."""
        group, self._group = self._group, []
        # Compaction makes replicas differ: their records are compared instead.
        if len(group) < 2 or self._facts.compacts:
            return
        intact = [
            batch
            for batch in group
            if batch.stored_crc == batch.computed_crc and batch.replica in self._in_sync
        ]
        digests = {batch.replica: batch.digest for batch in intact}
        differing = disagreeing_replicas(digests, self._facts.leader)
        for batch in intact:
            if batch.replica in differing:
                others = [broker for broker in digests if broker not in differing]
                yield Finding(
                    Check.REPLICA_MISMATCH,
                    self._facts.topic,
                    self._facts.partition,
                    batch.base_offset,
                    batch.replica,
                    f"the batch of offsets {batch.base_offset} to {batch.last_offset} differs from"
                    f" that of {_brokers(others)}",
                )


def _brokers(found: list[int]) -> str:
    """A subject with its verb, for messages."""
    names = ", ".join(map(str, found))
    return f"broker {names} has" if len(found) == 1 else f"brokers {names} have"
