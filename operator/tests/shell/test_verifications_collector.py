"""What Prometheus is told of Verifications: from their status alone, and only while they exist."""

from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_result import Check
from chiplog_core.model.spark_run import Coverage, Outcome
from chiplog_core.model.verification import (
    CheckCount,
    Verification,
    VerificationPhase,
    VerificationSpec,
    VerificationStatus,
)
from chiplog_kube.manifests import ObjectKey
from chiplog_operator.spark.collector import VerificationsCollector

NOW = datetime(2026, 1, 30, 12, 0, tzinfo=UTC)
KEY = ObjectKey("shop", "all")


def verification(status: VerificationStatus | None = None, **spec: Any) -> Verification:
    return Verification(
        metadata=Metadata(
            name="all", namespace="shop", uid="u1", generation=1, creation_timestamp=NOW
        ),
        spec=VerificationSpec(cluster_ref=ClusterRef(name="demo"), **spec),
        status=VerificationStatus() if status is None else status,
    )


class Scrape:
    """A board, and what it tells without the labels that every figure of an object has."""

    def __init__(self) -> None:
        self.board = VerificationsCollector()
        self.registry = CollectorRegistry()
        self.registry.register(self.board)

    def of(self, found: Verification | None) -> dict[tuple[str, ...], float]:
        self.board.show({} if found is None else {KEY: found})
        known = {}
        for family in text_string_to_metric_families(generate_latest(self.registry).decode()):
            for sample in family.samples:
                labels = dict(sample.labels)
                own = [labels.pop(name) for name in ("namespace", "name", "cluster")]
                assert own == ["shop", "all", "demo"]
                name = sample.name.removeprefix("chiplog_verification_")
                known[name, *labels.values()] = sample.value
        return known


def test_before_its_first_run_nothing_is_claimed() -> None:
    found = Scrape().of(verification(VerificationStatus(phase=VerificationPhase.WAITING)))
    assert found.pop(("phase", "Waiting")) == 1
    assert {found.pop(("phase", one.value)) for one in VerificationPhase if one != "Waiting"} == {0}
    assert found == {("failed",): 0, ("last_success_timestamp_seconds",): 0}


def test_a_run_that_found_something() -> None:
    status = VerificationStatus(
        phase=VerificationPhase.VIOLATIONS_FOUND,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=90),
        outcome=Outcome(complete=True, reason="ViolationsFound"),
        last_success=NOW - timedelta(days=1),
        coverage=Coverage(records=300, bytes=4_000),
        violations_total=130,
        violations_by_check=(
            CheckCount(check=Check.CRC, count=120),
            CheckCount(check=Check.TIMESTAMP, count=10),
        ),
    )
    found = Scrape().of(verification(status, schedule="0 3 * * *"))
    counts = {name[1]: value for name, value in found.items() if name[0] == "violations"}
    assert counts.pop("Crc") == 120
    assert counts.pop("Timestamp") == 10
    assert counts == dict.fromkeys(set(Check) - {"Crc", "Timestamp"}, 0)
    assert found["phase", "ViolationsFound"] == 1
    assert found["failed",] == 0
    assert found["last_success_timestamp_seconds",] == (NOW - timedelta(days=1)).timestamp()
    # Complete on the 30th: the run of the 31st must be over when that of the 1st begins.
    assert found["due_timestamp_seconds",] == datetime(2026, 2, 1, 3, tzinfo=UTC).timestamp()
    assert found["duration_seconds",] == 90
    assert (found["records",], found["bytes",]) == (300, 4_000)


def test_only_checks_that_were_wanted_say_that_they_found_nothing() -> None:
    status = VerificationStatus(violations_total=0)
    found = Scrape().of(verification(status, checks=(Check.CRC,)))
    assert [name for name in found if name[0] == "violations"] == [("violations", "Crc")]


def test_a_run_that_failed() -> None:
    status = VerificationStatus(
        phase=VerificationPhase.FAILED, outcome=Outcome(complete=False, reason="OOMKilled")
    )
    found = Scrape().of(verification(status))
    assert (found["failed",], found["phase", "Failed"]) == (1, 1)


def test_figures_go_with_the_object() -> None:
    scrape = Scrape()
    assert scrape.of(verification())
    assert scrape.of(None) == {}
