"""What Prometheus can ask about verifications, as of the last pass at each."""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_core.model.spark_result import Check
from chiplog_core.model.verification import Verification, VerificationPhase
from chiplog_core.spark.verification_due import due, duration, has_failed
from chiplog_kube.manifests import ObjectKey

LABELS: Final = ("namespace", "name", "cluster")


class VerificationsCollector(Collector):
    """The figures of all Verifications. A figure that is not known has no series."""

    def __init__(self) -> None:
        self._known: Mapping[ObjectKey, Verification] = {}

    def show(self, found: Mapping[ObjectKey, Verification]) -> None:
        """Collect from these Verifications from now on."""
        self._known = found

    def describe(self) -> Iterator[Metric]:
        """No metrics, because registering must not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics of all Verifications, made for each scrape."""
        families = _Families()
        for key, verification in sorted(self._known.items()):
            families.add([*key, verification.spec.cluster_ref.name], verification)
        yield from families.all


class _Families:
    def __init__(self) -> None:
        self.all: list[GaugeMetricFamily] = []
        self._phase = self._family(
            "phase", "1 for the current phase of the Verification, 0 for all others.", "phase"
        )
        self._failed = self._family(
            "failed", "1 if the last run that ended did not complete, else 0."
        )
        self._violations = self._family(
            "violations", "Violations that the last completed run found, by check.", "check"
        )
        self._success = self._family(
            "last_success_timestamp_seconds",
            "When the last run without violations ended, in Unix seconds; 0 if there was none.",
        )
        self._due = self._family(
            "due_timestamp_seconds",
            "Until when a run must be completed to keep the schedule, in Unix seconds.",
        )
        self._duration = self._family(
            "duration_seconds", "Duration of the last run; absent while one is running."
        )
        self._records = self._family(
            "records", "Records that the last completed run read, over all replicas."
        )
        self._bytes = self._family(
            "bytes", "Bytes that the last completed run read, over all replicas."
        )

    def _family(self, name: str, what: str, *more: str) -> GaugeMetricFamily:
        """A new metric with the help text `what`. Its labels are `LABELS` and those in `more`."""
        family = GaugeMetricFamily(f"chiplog_verification_{name}", what, labels=(*LABELS, *more))
        self.all.append(family)
        return family

    def add(self, labels: list[str], verification: Verification) -> None:
        """Add the figures of one Verification. `labels` are the values of `LABELS`."""
        status = verification.status
        for phase in VerificationPhase:
            self._phase.add_metric([*labels, phase.value], int(phase is status.phase))
        self._failed.add_metric(labels, int(has_failed(status)))
        self._add_violations(labels, verification)
        success_at, due_at, run_duration = status.last_success, due(verification), duration(status)
        self._success.add_metric(labels, 0 if success_at is None else success_at.timestamp())
        if due_at is not None:
            self._due.add_metric(labels, due_at.timestamp())
        if run_duration is not None:
            self._duration.add_metric(labels, run_duration.total_seconds())
        if status.coverage is not None:
            self._records.add_metric(labels, status.coverage.records)
            self._bytes.add_metric(labels, status.coverage.bytes)

    def _add_violations(self, labels: list[str], verification: Verification) -> None:
        """The violations of every requested check, also of those that found none."""
        if verification.status.violations_total is None:
            return
        counts = dict.fromkeys(verification.spec.checks or Check, 0)
        counts |= {found.check: found.count for found in verification.status.violations_by_check}
        for check, count in sorted(counts.items()):
            self._violations.add_metric([*labels, check.value], count)
