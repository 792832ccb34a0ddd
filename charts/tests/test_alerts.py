"""Alerts: each fires when it must and is quiet when it must be, and says what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.tests.files import CHECKOUT, MONITORING, by_kind, manifests, render
from chiplog_operator.metrics import Metrics
from e2e.cluster import tools
from e2e.cluster.shell import CommandFailed, run

RULES = sorted((MONITORING / "rules").glob("*.yaml"))
TESTS = Path(__file__).resolve().parent / "alerts"
RUNBOOKS = CHECKOUT / "docs" / "alerts.md"
METRIC = re.compile(r"\b(?:chiplog|kafka)_[a-z0-9_]+")


def rules_in(path: Path) -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(path.read_text())["groups"]:
        yield from group["rules"]


ALERTS = [(path, rule) for path in RULES for rule in rules_in(path)]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Path) else str(dict(value)["alert"])  # type: ignore[call-overload]


def exported() -> set[str]:
    """Names of the metrics that the operator tells."""
    return {family.name for family in Metrics().registry.collect()}


def test_there_are_alerts() -> None:
    assert {rule["alert"] for _, rule in ALERTS} >= {
        "ChiplogDataViolation",
        "ChiplogVerificationFailed",
        "ChiplogVerificationOverdue",
    }


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_says_how_bad_it_is_and_what_to_do(path: Path, rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert CHECKOUT / page == RUNBOOKS
    assert anchor == rule["alert"].lower()
    assert f"\n## {rule['alert']}\n" in RUNBOOKS.read_text()
    assert re.fullmatch(r"[1-9][0-9]*m", rule["for"]), "by seconds it would be noise"


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_asks_for_metrics_that_there_are(path: Path, rule: dict[str, Any]) -> None:
    names = set(METRIC.findall(rule["expr"]))
    assert names
    assert names <= exported()


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_is_tested_firing_and_quiet(path: Path, rule: dict[str, Any]) -> None:
    tested = yaml.safe_load((TESTS / path.name).read_text())["tests"]
    looks = [
        bool(look["exp_alerts"])
        for test in tested
        for look in test["alert_rule_test"]
        if look["alertname"] == rule["alert"]
    ]
    assert set(looks) == {True, False}
    assert not looks[-1], "it is seen to end"


# ---- with promtool and helm, which `make tools` makes ----


@pytest.fixture(scope="module")
def promtool() -> str:
    return str(tools.program("promtool"))


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", RULES, ids=name_of)
def test_prometheus_takes_the_rules_and_they_do_what_they_must(promtool: str, path: Path) -> None:
    assert "SUCCESS" in run(promtool, "check", "rules", "--lint-fatal", str(path))
    assert "SUCCESS" in run(promtool, "test", "rules", str(TESTS / path.name))


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_that_is_not_right_is_seen(
    promtool: str, path: Path, rule: dict[str, Any], tmp_path: Path
) -> None:
    """One that never fires, and one that always does."""
    tests = yaml.safe_load((TESTS / path.name).read_text())
    tests["rule_files"] = ["rules.yaml"]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    for wrong in ("vector(1) == 2", f"{rule['expr']} or vector(1)"):
        (tmp_path / "rules.yaml").write_text(path.read_text().replace(rule["expr"], wrong))
        with pytest.raises(CommandFailed, match=rule["alert"]):
            run(promtool, "test", "rules", str(tmp_path / "tests.yaml"))


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_the_chart_gives_the_rules_as_they_are_tested() -> None:
    helm = tools.program("helm")
    assert "0 chart(s) failed" in run(str(helm), "lint", "--strict", str(MONITORING))
    values = ("--set", "runbooks=https://r.example/alerts,labels.release=prometheus")
    found = manifests(render(helm, MONITORING, *values, "--namespace", "watch"))
    made = by_kind(found, "PrometheusRule")
    assert found == made
    assert len(made) == len(RULES)
    for path, one in zip(RULES, made, strict=True):
        text = path.read_text().replace("docs/alerts.md#", "https://r.example/alerts#")
        assert one["spec"] == yaml.safe_load(text)
        assert one["metadata"]["name"] == f"chiplog-{path.stem}"
        assert one["metadata"]["namespace"] == "watch"
        assert one["metadata"]["labels"]["release"] == "prometheus"
