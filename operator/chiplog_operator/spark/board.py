"""What Prometheus can ask about verifications, as of the last look at each."""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_core.model.verification import Verification, VerificationPhase
from chiplog_kube.manifests import ObjectKey

LABELS: Final = ("namespace", "name", "cluster")


class VerificationBoard(Collector):
    """The figures of all Verifications."""

    def __init__(self) -> None:
        self._known: Mapping[ObjectKey, Verification] = {}

    def show(self, found: Mapping[ObjectKey, Verification]) -> None:
        """All there are; what is not among them is forgotten."""
        self._known = found

    def describe(self) -> Iterator[Metric]:
        """Registering must not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        violations = _gauge("violations", "Violations that the last completed run found.")
        success = _gauge(
            "last_success_timestamp_seconds",
            "When the last run was over that found nothing wrong, in Unix seconds; 0 if none was.",
        )
        failed = _gauge("failed", "1 where the last run failed.")
        records = _gauge("records", "Records that the last completed run read, of all copies.")
        read = _gauge("bytes", "Bytes that the last completed run read, of all copies.")
        for key, one in sorted(self._known.items()):
            labels, status = [*key, one.spec.cluster_ref.name], one.status
            at = status.last_success
            success.add_metric(labels, 0 if at is None else at.timestamp())
            failed.add_metric(labels, int(status.phase is VerificationPhase.FAILED))
            if status.violations_total is not None:
                violations.add_metric(labels, status.violations_total)
            if status.coverage is not None:
                records.add_metric(labels, status.coverage.records)
                read.add_metric(labels, status.coverage.bytes)
        yield from (violations, success, failed, records, read)


def _gauge(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"chiplog_verification_{name}", what, labels=LABELS)
