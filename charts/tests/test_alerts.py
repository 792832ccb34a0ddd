"""Alerts: each fires when it must and is quiet when it must be, and says what to do."""

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.tests.rolls import SCRAPE_S, Roll
from charts.tests.rules import ALERTS, EXPORTED, LIST, RULES, RUNBOOKS, TESTS, rules_in, unknown
from e2e.cluster import tools
from e2e.cluster.shell import CommandFailed, run

NAMES = [rule["alert"] for _, rule in ALERTS]
KNOWN_BY_USERS = {
    "AbnormalControllerState",
    "ClusterOperatorContainerDown",
    "KafkaBrokerContainersDown",
    "KafkaRunningOutOfSpace",
    "NoMessageForTooLong",
    "OfflineLogDirectoryCount",
    "OfflinePartitions",
    "OperatorReconcileErrors",
    "OperatorStalled",
    "ScrapeProblem",
    "TooLargeConsumerGroupLag",
    "UnderMinIsrPartitionCount",
    "UnderReplicatedPartitions",
}
OF_BROKERS = next(path for path in RULES if path.stem == "cluster")
LABEL = re.compile(r"\$labels\.(\w+)")


def name_of(value: object) -> str:
    return value.name if isinstance(value, Path) else str(dict(value)["alert"])  # type: ignore[call-overload]


def looks_at(path: Path, alert: str) -> list[list[list[dict[str, Any]]]]:
    """Of each test that looks at an alert, in the order of time: what it expects."""
    tests = yaml.safe_load((TESTS / path.name).read_text())["tests"]
    found = [
        [look for look in test["alert_rule_test"] if look["alertname"] == alert] for test in tests
    ]
    return [
        [look["exp_alerts"] for look in sorted(looks, key=lambda look: minutes(look["eval_time"]))]
        for looks in found
        if looks
    ]


def minutes(duration: str) -> int:
    assert duration.endswith("m")
    return int(duration[:-1])


def test_alerts_have_the_names_that_users_know_and_each_only_one() -> None:
    assert set(NAMES) >= KNOWN_BY_USERS
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_says_how_bad_it_is_and_what_to_do(path: Path, rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
    assert re.fullmatch(r"[1-9][0-9]*m", rule["for"]), "by seconds it would be noise"


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_has_a_runbook_that_says_the_same(path: Path, rule: dict[str, Any]) -> None:
    name, severity, wait = rule["alert"], rule["labels"]["severity"], minutes(rule["for"])
    page = (RUNBOOKS / f"{name}.md").read_text()
    title, first, *_ = page.split("\n\n")
    unit = "minute" if wait == 1 else "minutes"
    assert title == f"# {name}"
    assert first.startswith(f"*{severity.capitalize()}*, after {wait} {unit}: ")
    assert "\n1. " in page, "what to do first"
    row = f"| [`{name}`](runbooks/{name}.md) | {severity} | {wait} | "
    assert LIST.read_text().count(row) == 1


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    assert sorted(page.stem for page in RUNBOOKS.iterdir()) == sorted(NAMES)
    assert sorted(re.findall(r"^\| \[`(\w+)`\]", LIST.read_text(), re.MULTILINE)) == sorted(NAMES)


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_a_runbook_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_asks_for_metrics_that_there_are(path: Path, rule: dict[str, Any]) -> None:
    assert EXPORTED.search(rule["expr"])
    assert unknown(rule["expr"]) == set()


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_an_alert_is_tested_quiet_then_firing_then_ended(path: Path, rule: dict[str, Any]) -> None:
    """Within one test, so that it is the same fault that comes and goes."""
    courses = [
        [fires for fires, _ in groupby(bool(expected) for expected in looks)]
        for looks in looks_at(path, rule["alert"])
    ]
    assert [False, True, False] in [course[:3] for course in courses]


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=name_of)
def test_what_an_alert_says_is_told_by_its_labels(path: Path, rule: dict[str, Any]) -> None:
    """A label that is not there would leave a hole in the sentence."""
    said = {label for text in rule["annotations"].values() for label in LABEL.findall(text)}
    for looks in looks_at(path, rule["alert"]):
        for expected in looks:
            for one in expected:
                assert said <= set(one["exp_labels"])


# ---- with promtool, which `make tools` makes ----


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
@pytest.mark.parametrize("path", RULES, ids=name_of)
def test_where_there_is_nothing_no_alert_fires(promtool: str, path: Path, tmp_path: Path) -> None:
    looks = [
        {"alertname": rule["alert"], "eval_time": at, "exp_alerts": []}
        for _, rule in ALERTS
        for at in ("0m", "2h")
    ]
    elsewhere = {"series": 'up{job="another",namespace="shop",pod="a"}', "values": "0x120"}
    test = {"interval": "1m", "input_series": [elsewhere], "alert_rule_test": looks}
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": [str(path)], "evaluation_interval": "1m", "tests": [test]})
    )
    assert "SUCCESS" in run(promtool, "test", "rules", str(tmp_path / "tests.yaml"))


def fires_in(promtool: str, roll: Roll, folder: Path) -> set[str]:
    """The alerts about brokers that a rolling restart sets off."""
    test = roll.test([rule["alert"] for rule in rules_in(OF_BROKERS)])
    file = folder / "tests.yaml"
    every = {"evaluation_interval": f"{SCRAPE_S}s", "rule_files": [str(OF_BROKERS)]}
    file.write_text(yaml.safe_dump({**every, "tests": [test]}))
    try:
        run(promtool, "test", "rules", str(file))
    except CommandFailed as failed:
        fired = set(re.findall(r"alertname: ?(\w+),", failed.output))
        if not fired:
            raise  # it failed for another reason: nothing is known
        return fired
    return set()


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "roll",
    [
        Roll(brokers=3, away_s=60, behind_s=10),
        Roll(brokers=3, away_s=120, behind_s=60),
        Roll(brokers=9, away_s=120, behind_s=60),
        Roll(brokers=12, away_s=60, behind_s=60),
        Roll(brokers=24, away_s=60, behind_s=10),
        Roll(brokers=3, away_s=60, behind_s=30, replicas=2),
        Roll(brokers=3, away_s=60, behind_s=30, replicas=1),
        Roll(brokers=9, away_s=120, behind_s=60, replicas=1),
    ],
    ids=str,
)
def test_a_rolling_restart_is_nobodys_alarm(promtool: str, roll: Roll, tmp_path: Path) -> None:
    """Such as docs/alerts.md promises; not for a moment between two brokers all is in sync."""
    assert fires_in(promtool, roll, tmp_path) == set()


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("roll", "fires"),
    [
        (Roll(brokers=12, away_s=120, behind_s=60), {"UnderReplicatedPartitions"}),
        (Roll(brokers=3, away_s=120, behind_s=60, replicas=2), {"UnderMinIsrPartitionCount"}),
        (Roll(brokers=6, away_s=60, behind_s=10, replicas=1), {"OfflinePartitions"}),
    ],
    ids=str,
)
def test_a_longer_rolling_restart_is_seen(
    promtool: str, roll: Roll, fires: set[str], tmp_path: Path
) -> None:
    """What docs/alerts.md says of larger ones, and so that the test before can fail."""
    assert fires_in(promtool, roll, tmp_path) == fires


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", RULES, ids=name_of)
@pytest.mark.parametrize("wrong", ["vector(1) == 2", "({}) or vector(1)"], ids=["never", "always"])
def test_an_alert_that_is_not_right_is_seen(
    promtool: str, path: Path, wrong: str, tmp_path: Path
) -> None:
    """Of each alert of a file, where all never fire, and where all always do."""
    tests = yaml.safe_load((TESTS / path.name).read_text())
    rules = yaml.safe_load(path.read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["expr"] = wrong.format(rule["expr"])
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({**tests, "rule_files": ["rules.yaml"]}))
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    with pytest.raises(CommandFailed) as failed:
        run(promtool, "test", "rules", str(tmp_path / "tests.yaml"))
    seen = set(re.findall(r"alertname: ?(\w+),", failed.value.output))
    assert seen == {rule["alert"] for rule in rules_in(path)}
