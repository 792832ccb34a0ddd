"""Decides on the driver which findings are violations, and what was covered.

Tasks check by what was known when the read was planned. Since then retention may have deleted
records, and replicas may have left the ISR or been refetched: findings that this explains are not
violations.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import PartitionFacts
from chiplog_spark.verify.findings import Finding, explained_by_retention
from chiplog_spark.verify.placement import Chosen, Tally, choose, notices
from chiplog_spark.verify.reports import Found, Read
from chiplog_spark.verify.surviving import Suspicion

Place: TypeAlias = tuple[str, int]
Suspect: TypeAlias = tuple[Place, Suspicion]

Accusation: TypeAlias = tuple[Check, str, int, int]
"""Check, topic, partition and replica."""

TRANSACTIONAL: Final = frozenset({Check.LAST_STABLE_OFFSET, Check.TRANSACTION_INDEX})
"""Checks that depend on the end markers of transactions."""

DAMAGED: Final = frozenset({"ReplicaDamaged", "DamagedBatch"})
"""Reasons of refusals that mean that the replica's bytes are damaged."""
MAX_REPORTED: Final = 200
"""The most entries in each list of a summary: replicas that a broker refused to serve, checks that
could not be done for a topic, and notices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """The state of a partition after the read; offsets are by broker id."""

    in_sync: frozenset[int] = frozenset()
    start_offsets: Mapping[int, int] = field(default_factory=dict)
    clean_offsets: Mapping[int, int] = field(default_factory=dict)
    """Of replicas that answered; a replica that was refetched has a lower one."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The result of all checks, and what was covered."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[Check] = field(default_factory=Counter)
    """The number of all findings by check, also of those that are not listed."""
    suspects: dict[Suspect, Finding] = field(default_factory=dict)
    """Findings that must be confirmed by another read."""
    chosen: dict[str, Chosen] = field(default_factory=dict)
    notices: list[dict[str, Any]] = field(default_factory=list)
    """Facts that are not violations and should be known."""
    skipped: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    coverage: dict[str, int] = field(default_factory=dict)

    accusations: set[Accusation] = field(default_factory=set)
    """Which replica violates which check, also if it is not listed."""

    @property
    def total(self) -> int:
        return self.counts.total()


class Judge:
    """Collects the reports of tasks by `add_read` and `add_found`; then call `verdict`."""

    def __init__(
        self,
        facts: Mapping[Place, PartitionFacts],
        checks: frozenset[Check],
        partitioners: Sequence[str] = (),
    ) -> None:
        self._facts = facts
        self._checks = checks
        self._partitioners = partitioners
        self._reads: list[Read] = []
        self._found: list[Found] = []

    def add_read(self, read: Read) -> None:
        self._reads.append(read)

    def add_found(self, found: Found) -> None:
        self._found.append(found)

    @property
    def facts(self) -> Mapping[Place, PartitionFacts]:
        return self._facts

    @property
    def reads(self) -> list[Read]:
        return self._reads

    def verdict(self, after: Mapping[Place, After]) -> Verdict:
        """Decide which findings are violations; `after` is the cluster's state after the read."""
        verdict = Verdict()
        reported = _Reported(self._facts, after, self._checks)
        whole = self._places_read_whole()
        for found in self._found:
            place = found.finding.topic, found.finding.partition
            if found.suspicion is None:
                reported.add(found.finding, found.more)
            # A missing record proves nothing unless all in-sync replicas were read to the end.
            elif place in whole and reported.is_violation(found.finding):
                verdict.suspects[place, found.suspicion] = found.finding
        self._add_record_findings(verdict, reported)
        self._add_refusals(verdict, reported)
        self._add_skipped_checks(verdict)
        verdict.findings, verdict.counts = reported.findings, reported.counts
        verdict.accusations = reported.accusations
        verdict.coverage = coverage(self._reads)
        return verdict

    # --- parts ------------------------------------------------------------------------

    def _places_read_whole(self) -> set[Place]:
        """The partitions whose in-sync replicas were all read to the end."""
        incomplete = {
            (read.topic, read.partition)
            for read in self._reads
            if not read.is_whole and self._is_in_sync(read)
        }
        return {place for place in self._facts if place not in incomplete}

    def _is_in_sync(self, read: Read) -> bool:
        """Whether the replica that was read is known to be in its partition's ISR."""
        known = self._facts[read.topic, read.partition].replica(read.replica)
        return known is not None and known.in_sync

    def _add_record_findings(self, verdict: Verdict, reported: "_Reported") -> None:
        """Add findings on timestamps, and on keys by the hash that fits the topic."""
        for topic, tally in self._tallies().items():
            partitions = next(
                partition.partitions
                for (name, _), partition in self._facts.items()
                if name == topic
            )
            chosen = choose(tally, self._partitioners, partitions)
            verdict.chosen[topic] = chosen
            verdict.notices += notices(topic, chosen, tally)
        verdict.notices = verdict.notices[:MAX_REPORTED]
        for read in self._reads:
            for finding in read.findings:
                reported.add(finding)
            reported.count_more(read, {Check.TIMESTAMP.value: Check.TIMESTAMP})
            chosen_for_topic = verdict.chosen.get(read.topic)
            if chosen_for_topic is None or chosen_for_topic.reason:  # not to be reported
                continue
            for finding in read.misplaced:
                reported.add(finding)
            reported.count_more(read, {Check.KEY_PLACEMENT.value: Check.KEY_PLACEMENT})

    def _tallies(self) -> dict[str, Tally]:
        """The tally of each topic, from one replica of each partition: no record counts twice."""
        if Check.KEY_PLACEMENT not in self._checks or not self._partitioners:
            return {}
        counted_replicas: dict[Place, int] = {}  # the leader, if it was read
        for read in self._reads:
            place = read.topic, read.partition
            leader = self._facts[place].leader
            if read.records and (place not in counted_replicas or read.replica == leader):
                counted_replicas[place] = read.replica
        tallies: dict[str, Tally] = {}
        for read in self._reads:
            place = read.topic, read.partition
            if counted_replicas.get(place) == read.replica and self._facts[place].partitions > 1:
                tallies.setdefault(read.topic, Tally()).add(read.tally)
        return tallies

    def _add_refusals(self, verdict: Verdict, reported: "_Reported") -> None:
        """Report the first refusal of each replica; one because of damage is a violation."""
        handled: set[tuple[str, int, int]] = set()
        for read in sorted(self._reads, key=lambda read: read.start):
            if read.refusal is None:
                continue
            reason, offset, message = read.refusal
            which = read.topic, read.partition, read.replica
            if which in handled:
                continue
            handled.add(which)
            place = {
                "topic": read.topic,
                "topicId": self._facts[read.topic, read.partition].topic_id,
                "partition": read.partition,
                "replica": read.replica,
            }
            verdict.refused.append({**place, "offset": offset, "message": message})
            if reason in DAMAGED:
                what = (
                    f"the broker refuses to serve its damaged replica from offset {offset} on: "
                    f"{message}"
                )
                reported.add(
                    Finding(Check.CRC, read.topic, read.partition, offset, read.replica, what)
                )
        verdict.refused = verdict.refused[:MAX_REPORTED]

    def _add_skipped_checks(self, verdict: Verdict) -> None:
        """Report the checks that could not be done for a topic, with their reasons."""
        skipped: dict[tuple[str, str], str] = {}
        for topic, chosen in verdict.chosen.items():
            if chosen.reason:
                skipped[topic, Check.KEY_PLACEMENT.value] = chosen.reason
        for (topic, _), partition in self._facts.items():
            unknown = [r.broker for r in partition.replicas if r.in_sync and r.clean_offset is None]
            if partition.compacts and unknown and Check.COMPACTION_ORDER in self._checks:
                reason = f"brokers {unknown} do not report up to which offset they have compacted"
                skipped[topic, Check.COMPACTION_ORDER.value] = reason
        for read in self._reads:
            if read.unreadable:
                what = f"{read.unreadable} batches of partition {read.partition}"
                reason = f"the records of {what} cannot be decoded; a client sent them like that"
                skipped[read.topic, Check.TIMESTAMP.value] = reason
        verdict.skipped = [
            {"topic": topic, "check": check, "reason": reason}
            for (topic, check), reason in sorted(skipped.items())
        ][:MAX_REPORTED]


class _Reported:
    """The findings that are violations, and their counts."""

    def __init__(
        self,
        facts: Mapping[Place, PartitionFacts],
        after: Mapping[Place, After],
        checks: frozenset[Check],
    ) -> None:
        self._facts, self._after, self._checks = facts, after, checks
        self.findings: list[Finding] = []
        self.counts: Counter[Check] = Counter()
        self.accusations: set[Accusation] = set()

    def add(self, finding: Finding, more: int = 0) -> None:
        """Add a finding if it is a violation.

        If `more` is not 0, it is only counted: as `more` further findings like it.
        """
        if not self.is_violation(finding):
            return
        self.counts[finding.check] += more or 1
        if not more:
            self.findings.append(finding)
        self.accusations.add(accusation_of(finding))

    def count_more(self, read: Read, checks: Mapping[str, Check]) -> None:
        """Count the findings of these checks that a report does not list."""
        for name, check in checks.items():
            if check in self._checks:
                self.counts[check] += read.more.get(name, 0)

    def is_violation(self, finding: Finding) -> bool:
        """Whether the check is requested, and nothing that happened during the read explains it."""
        if finding.check not in self._checks:
            return False
        place = finding.topic, finding.partition
        facts, after = self._facts[place], self._after.get(place, After())
        # A replica that has left the ISR need not have all records.
        if finding.check is Check.TRUNCATED_TAIL and finding.replica not in after.in_sync:
            return False
        if finding.check is Check.COMPACTION_ORDER:
            # A replica that was refetched in the meantime is compacted less far than it was.
            known = facts.replica(finding.replica)
            clean_offset = known.clean_offset if known is not None else None
            return after.clean_offsets.get(finding.replica, -1) >= (clean_offset or 0)
        if finding.check in TRANSACTIONAL:
            return not _may_lack_markers(finding, facts, after)
        # Each replica compacts on its own, so any of them may have removed the record.
        starts = after.start_offsets
        start = (
            max(starts.values(), default=0) if facts.compacts else starts.get(finding.replica, 0)
        )
        return not explained_by_retention(finding, start)


def _may_lack_markers(finding: Finding, facts: PartitionFacts, after: After) -> bool:
    """Whether retention or compaction may have removed end markers behind the finding's offset
    while the replica was read, or that is not known."""
    start = after.start_offsets.get(finding.replica)
    if start is None or finding.offset < start:
        return True
    if not facts.compacts:
        return False
    known = facts.replica(finding.replica)
    clean_offset = after.clean_offsets.get(finding.replica)
    if known is None or known.clean_offset is None or clean_offset is None:
        return True
    return clean_offset != known.clean_offset and finding.offset < clean_offset


def accusation_of(finding: Finding) -> Accusation:
    """Which replica violates which check."""
    return finding.check, finding.topic, finding.partition, finding.replica


def confirmed(first: Verdict, second: Verdict) -> list[Finding]:
    """The suspected findings that a later read has found again."""
    return [finding for suspect, finding in first.suspects.items() if suspect in second.suspects]


def coverage(reads: Iterable[Read]) -> dict[str, int]:
    """The numbers of what was read; records and bytes are those of all replicas.

    A read counts if it got further than its start, or if there was nothing to read.
    """
    read = [read for read in reads if read.end > read.start or read.planned_end <= read.start]
    return {
        "topics": len({read.topic for read in read}),
        "partitions": len({(read.topic, read.partition) for read in read}),
        "replicas": len({(read.topic, read.partition, read.replica) for read in read}),
        "records": sum(read.records for read in read),
        "bytes": sum(read.bytes for read in read),
    }


def partitioners(chosen: Mapping[str, Chosen]) -> list[dict[str, Any]]:
    """The summary's list of topics with their partitioners, and the percentage that each places."""
    reported = []
    for topic, choice in sorted(chosen.items()):
        others = [other.partitioner for other in choice.others]
        entry = {
            "topic": topic,
            "partitioner": choice.partitioner,
            "share": round(choice.share_percent, 2),
        }
        reported.append({**entry, "others": others} if others else entry)
    return reported


def figures(reads: Iterable[Read], *, seconds: float, cores: int) -> dict[str, float | int | bool]:
    """Duration and throughput; per core it is over the time that tasks read and checked."""
    reads = list(reads)
    busy_s = sum(read.seconds for read in reads)
    megabytes = sum(read.bytes for read in reads) / 1e6
    return {
        "seconds": round(seconds, 3),
        "cores": cores,
        "megabytesPerSecondPerCore": round(megabytes / busy_s, 3) if busy_s else 0.0,
        "timeLimitReached": any(read.was_cut for read in reads),
    }
