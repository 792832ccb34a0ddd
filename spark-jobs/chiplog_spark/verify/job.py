"""A verification from its request to its result."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Protocol

from chiplog_core.manifest.constraints import Items, Range
from chiplog_core.model.references import TopicName
from chiplog_core.model.spark_result import MAX_VIOLATIONS, Check, Result, ResultState
from chiplog_core.model.topic import Partitioner
from chiplog_spark.source.splits import Split
from chiplog_spark.verify.accused import accused
from chiplog_spark.verify.inspection import Wanted
from chiplog_spark.verify.judge import (
    Judge,
    Verdict,
    accusation_of,
    confirmed,
    figures,
    partitioners,
)
from chiplog_spark.verify.pace import share_of
from chiplog_spark.verify.placement import candidates
from chiplog_spark.verify.plan import (
    TopicPlan,
    interleaved,
    offsets_afterwards,
    planned_topic,
    splits_of_replicas,
)
from chiplog_spark.verify.reading import Task
from chiplog_spark.wire.access import Access
from chiplog_spark.wire.client import Client

log = logging.getLogger(__name__)

RECORDS_A_SPLIT: Final = 100_000
PATIENCE_MS: Final = 20_000
"""How long a replica may lag behind the fixed end offset, or not answer."""
MAX_TOPICS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The part of a Verification's request under `job`."""

    topics: Annotated[tuple[TopicName, ...], "Names of topics.", Items(MAX_TOPICS, minimum=1)]
    checks: Annotated[
        tuple[Check, ...], "What to check; empty for everything.", Items(len(Check))
    ] = ()
    partitioner: Annotated[
        Partitioner, "Hash by which producers choose the partition of a key."
    ] = Partitioner.AUTO
    bytes_per_second: Annotated[
        int | None, "Read rate limit over all tasks.", Range(1, 2**63 - 1)
    ] = None
    time_limit_ms: Annotated[int | None, "Time limit.", Range(1, 2**63 - 1)] = None
    max_violations: Annotated[
        int, "Maximum number of violations that are listed.", Range(1, MAX_VIOLATIONS)
    ] = MAX_VIOLATIONS
    records_per_split: Annotated[
        int, "Offsets that one task reads of a replica.", Range(1, 2**31 - 1)
    ] = RECORDS_A_SPLIT


class Runner(Protocol):
    """Runs the two stages."""

    @property
    def parallel_tasks(self) -> int:
        """The number of splits that are read in parallel."""

    def run(self, task: Task, splits: Sequence[Split], judge: Judge) -> None:
        """Read and check the splits, and add the reports to `judge`."""


def access_of(access: Access) -> Access:
    """The access for this job, which waits at most `PATIENCE_MS` for a replica."""
    return replace(access, patience_ms=min(access.patience_ms, PATIENCE_MS))


def verify(runner: Runner, access: Access, job: Job) -> Result:
    """Run the verification. Raises `WireError` if nothing can be read."""
    began_s = time.monotonic()
    access = access_of(access)
    checks = frozenset(job.checks or Check)
    deadline_s = None if job.time_limit_ms is None else time.time() + job.time_limit_ms / 1000
    wanted = Wanted(
        checks=checks,
        partitioners=candidates(job.partitioner.value),
        limit=job.max_violations,
    )
    judge, verdict = _run_splits(runner, access, job, wanted, deadline_s)
    findings, counts, accusations = list(verdict.findings), verdict.counts, verdict.accusations
    if verdict.suspects:
        second_findings = _confirm_suspects(runner, access, job, wanted, verdict, deadline_s)
        findings += second_findings
        counts.update(finding.check for finding in second_findings)
        accusations |= {accusation_of(finding) for finding in second_findings}
    cores = runner.parallel_tasks
    summary = {
        "coverage": verdict.coverage,
        "partitioners": partitioners(verdict.chosen),
        "notices": verdict.notices,
        "skipped": verdict.skipped,
        "refused": verdict.refused,
        **accused(accusations, judge.facts),
        "figures": figures(judge.reads, seconds=time.monotonic() - began_s, cores=cores),
    }
    return result_of_findings(findings, counts, summary)


def result_of_findings(
    findings: Iterable[Any], counts: Mapping[Check, int], summary: dict[str, Any]
) -> Result:
    """The result; violations are sorted by topic, partition, offset and replica."""
    total = sum(counts.values())
    by_check = [
        {"check": check.value, "count": count} for check, count in sorted(counts.items()) if count
    ]
    ordered = sorted(
        findings,
        key=lambda finding: (finding.topic, finding.partition, finding.offset, finding.replica),
    )
    coverage, is_cut = summary["coverage"], summary["figures"]["timeLimitReached"]
    what = (
        f"{coverage['records']} records and {coverage['bytes']} bytes of"
        f" {coverage['replicas']} replicas checked"
    )
    message = f"{what}, {total} violations" + (", until the time limit" if is_cut else "")
    return Result(
        application="verify",
        state=ResultState.SUCCEEDED,
        reason="ViolationsFound" if total else "NoViolations",
        message=message,
        summary={**summary, "byCheck": by_check},
        violations=tuple(finding.violation() for finding in ordered),
        violations_total=total,
    ).fitted()


def _run_splits(
    runner: Runner, access: Access, job: Job, wanted: Wanted, deadline_s: float | None
) -> tuple[Judge, Verdict]:
    """Plan the splits of all replicas, read and check them, and judge the findings.

    `deadline_s` is Unix time in seconds; None means no time limit.
    """
    with Client(access) as client:
        now_ms = int(time.time() * 1000)
        plans = [planned_topic(client, name, now_ms) for name in dict.fromkeys(job.topics)]
        facts = {
            (partition.topic, partition.partition): partition
            for plan in plans
            for partition in plan.partitions
        }
        splits = _splits(plans, job.records_per_split)
        parallel = min(runner.parallel_tasks, max(len(splits), 1))
        task = Task(
            access=access,
            facts=facts,
            wanted=wanted,
            bytes_per_second=share_of(job.bytes_per_second, parallel),
            deadline_s=deadline_s,
        )
        log.info("planned", extra={"partitions": len(facts), "splits": len(splits)})
        judge = Judge(facts, wanted.checks, wanted.partitioners)
        if splits:
            runner.run(task, splits, judge)
        verdict = judge.verdict(offsets_afterwards(client, facts))
    return judge, verdict


def _confirm_suspects(
    runner: Runner,
    access: Access,
    job: Job,
    wanted: Wanted,
    first: Verdict,
    deadline_s: float | None,
) -> list[Any]:
    """Read the keys of suspected missing records again, up to a newer end offset.

    Returns the findings of `first` that the second read confirms.
    """
    keys = frozenset(suspicion.key for _, suspicion in first.suspects)
    topics = tuple(sorted({topic for (topic, _), _ in first.suspects}))
    log.info("looking again", extra={"topics": topics, "keys": len(keys)})
    narrowed = replace(wanted, keys=keys, checks=frozenset({Check.REPLICA_MISMATCH}))
    _, second = _run_splits(runner, access, replace(job, topics=topics), narrowed, deadline_s)
    return confirmed(first, second)


def _splits(plans: Sequence[TopicPlan], records_per_split: int) -> list[Split]:
    """The splits of all replicas of all topics, in the order in which tasks shall read them."""
    return interleaved(
        split for plan in plans for split in splits_of_replicas(plan, records_per_split)
    )
