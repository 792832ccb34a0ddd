"""Every pod that a chart makes is within `restricted`. Needs the program helm, and no cluster."""

from pathlib import Path
from typing import Any

import pytest

from charts.tests.files import CLUSTER, MONITORING, OPERATOR, manifests, render
from e2e.cluster import build
from e2e.pod_security import not_ours, not_restricted

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

VALUES = ("--set-json", 'podAnnotations={"a":"b"}', "--set-json", 'watchNamespaces=["blue"]')


def pods(chart: Path, *arguments: str) -> list[Any]:
    """The specs of all pods that stand in what a chart becomes."""
    found = manifests(render(build.program("helm"), chart, *arguments))
    templates = [one.get("spec", {}).get("template", {}) for one in found]
    whole = [one["spec"] for one in found if one["kind"] == "Pod"]
    return [*whole, *(one["spec"] for one in templates if "containers" in one.get("spec", {}))]


@pytest.mark.parametrize("arguments", [(), VALUES], ids=["as it is", "with values"])
def test_the_operators_pods_are_restricted(arguments: tuple[str, ...]) -> None:
    found = pods(OPERATOR, *arguments)
    assert found
    for spec in found:
        assert not_restricted(spec) == []
        assert not_ours(spec) == []


@pytest.mark.parametrize("chart", [CLUSTER, MONITORING], ids=lambda path: path.name)
def test_no_other_chart_brings_a_pod(chart: Path) -> None:
    assert pods(chart) == []
