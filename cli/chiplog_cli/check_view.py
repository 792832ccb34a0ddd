"""What `check` finds: for each thing that must be so, whether it is, and else why not."""

from collections.abc import Mapping, Sequence
from typing import Any

from chiplog_cli.facts import Broker, Cluster, Topic
from chiplog_cli.tables import table
from chiplog_core.telemetry.findings import Finding, are_ok

HEADER = ("CHECK", "OK", "PROBLEM")


def of_broker(broker: Broker, expected: Cluster, answer: Cluster | Exception) -> Finding:
    """Whether a broker itself answered a Metadata request, and belongs to the same cluster as the
    bootstrap broker, whose answer is `expected`. `answer` is its own answer, or its error."""
    what = f"broker {broker.id} at {broker.host}:{broker.port} answers"
    if isinstance(answer, Exception):
        return Finding(what, str(answer))
    if answer.cluster_id != expected.cluster_id:
        return Finding(
            what,
            f"it belongs to cluster {answer.cluster_id}, the others belong to "
            f"{expected.cluster_id}",
        )
    missing = {broker.id for broker in expected.brokers} - {broker.id for broker in answer.brokers}
    if missing:
        return Finding(what, f"it does not know brokers {', '.join(map(str, sorted(missing)))}")
    return Finding(what)


def of_number(wanted: int, cluster: Cluster) -> Finding:
    """Whether the cluster has at least the number of brokers in the BrokerCluster's spec."""
    count = len(cluster.brokers)
    problem = f"only {count} of {wanted} brokers are registered" if count < wanted else ""
    return Finding(f"{wanted} brokers", problem)


def of_partitions(topics: Sequence[Topic]) -> Finding:
    """Whether every partition has a leader."""
    offline = [
        f"{topic.name}-{partition.partition}"
        for topic in topics
        for partition in topic.partitions
        if partition.leader is None
    ]
    return Finding(
        "every partition has a leader", f"no leader: {_some(offline)}" if offline else ""
    )


def _some(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def document(findings: Sequence[Finding]) -> Mapping[str, Any]:
    """The findings for JSON and YAML. A `problem` of null means that the check passed."""
    return {
        "ok": are_ok(findings),
        "checks": [
            {"check": finding.what, "ok": not finding.problem, "problem": finding.problem or None}
            for finding in findings
        ],
    }


def text(findings: Sequence[Finding]) -> str:
    """The findings as a table: what was checked, yes or no, and the problem."""
    rows = [
        (finding.what, "no" if finding.problem else "yes", finding.problem) for finding in findings
    ]
    return table(HEADER, rows)
