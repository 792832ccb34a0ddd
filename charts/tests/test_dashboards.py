"""Dashboards: what Grafana would refuse, and whether their queries ask for what there is.

Against a live Prometheus the queries are asked in the end-to-end tests.
"""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.dashboards.board import COLUMNS, SOURCE
from charts.dashboards.boards import BOARDS, FOLDER
from charts.dashboards.queries import EXAMPLE, Query, queries
from charts.tests.files import CHARTS
from charts.tests.rules import EXPORTED, metrics_in, unknown
from e2e.cluster import tools
from e2e.cluster.shell import CommandFailed, run

FILES = sorted((CHARTS / FOLDER).glob("*.json"))
LEGEND = re.compile(r"\{\{(\w+)\}\}")


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def asked() -> list[tuple[str, Query]]:
    return [(path.stem, query) for path in FILES for query in queries(dashboard(path))]


def name_of(value: object) -> str:
    if isinstance(value, Path):
        return value.stem
    return value.panel if isinstance(value, Query) else str(value)


def test_there_are_the_dashboards_that_are_promised() -> None:
    assert {path.stem for path in FILES} == {"cluster", "topics", "groups", "operator"}
    uids = [dashboard(path)["uid"] for path in FILES]
    titles = [dashboard(path)["title"] for path in FILES]
    assert len(set(uids)) == len(set(titles)) == len(BOARDS)
    assert all(re.fullmatch(r"[a-z-]{1,40}", uid) for uid in uids)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_panels_have_numbers_and_places_of_their_own(path: Path) -> None:
    panels = dashboard(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    spaces = [panel["gridPos"] for panel in panels]
    assert all(one["x"] >= 0 and one["x"] + one["w"] <= COLUMNS for one in spaces)
    for one, other in combinations(spaces, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_data_source_is_chosen_on_the_dashboard(path: Path) -> None:
    one = dashboard(path)
    first, *variables = one["templating"]["list"]
    assert (first["type"], first["query"]) == ("datasource", "prometheus")
    assert SOURCE["uid"] == "${" + first["name"] + "}"
    asking = [panel for panel in one["panels"] if panel["type"] != "row"]
    targets = [target for panel in asking for target in panel["targets"]]
    assert all(each["datasource"] == SOURCE for each in (*variables, *asking, *targets))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_dashboard_declares_the_variables_that_it_uses(path: Path) -> None:
    one = dashboard(path)
    declared = [variable["name"] for variable in one["templating"]["list"][1:]]
    used = set(
        re.findall(r"\$(\w+)", json.dumps([panel.get("targets") for panel in one["panels"]]))
    )
    assert {name for name in used if not name.startswith("__")} == set(declared)
    for index, variable in enumerate(one["templating"]["list"][1:]):
        asks = set(re.findall(r"\$(\w+)", variable["query"]["query"]))
        assert asks <= set(declared[:index]), "it can only ask for those before it"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_legend_names_labels_that_the_query_leaves(path: Path) -> None:
    for panel in dashboard(path)["panels"]:
        for target in panel.get("targets", []):
            labels = set(LEGEND.findall(target["legendFormat"]))
            grouped = re.search(r"by \(([^)]*)\)", target["expr"])
            kept = {"pod"} if grouped is None else set(re.split(r", ?", grouped[1])) - {"le"}
            assert labels <= kept, panel["title"]
            assert panel["type"] == "stat" or kept == labels or not labels, panel["title"]


def test_queries_have_a_value_for_every_variable() -> None:
    every = asked()
    assert len(every) > 100
    for _, query in every:
        assert "$" not in query.expr
        assert EXPORTED.search(query.expr), query
    topics = dashboard(CHARTS / FOLDER / "topics.json")
    chosen = queries(topics, {**EXAMPLE, "cluster": "mine", "topic": "orders|events"})
    assert Query("variable cluster", 'kafka_brokers{namespace="demo"}') in chosen
    assert sum('cluster="mine",topic=~"orders|events"' in query.expr for query in chosen) > 10
    with pytest.raises(KeyError, match="topic"):
        queries(topics, {name: value for name, value in EXAMPLE.items() if name != "topic"})


@pytest.mark.parametrize(("board", "query"), asked(), ids=name_of)
def test_a_query_asks_for_metrics_that_there_are(board: str, query: Query) -> None:
    assert unknown(query.expr) == set(), f"{board}: {query.panel}"


def test_a_metric_that_there_is_not_is_seen() -> None:
    assert metrics_in('sum(kafka_brokers{a="chiplog_operator_x"})') == {"kafka_brokers"}
    assert unknown("rate(kafka_broker_heads_total[1m])") == {"kafka_broker_heads_total"}


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_prometheus_takes_every_query(tmp_path: Path) -> None:
    def checked(exprs: list[str]) -> str:
        rules = [
            {"record": f"query:{index}", "expr": expr, "labels": {"number": str(index)}}
            for index, expr in enumerate(exprs)
        ]
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
        return run(str(tools.promtool()), "check", "rules", str(file))

    every = [query.expr for _, query in asked()]
    assert f"{len(every)} rules found" in checked(every)
    with pytest.raises(CommandFailed, match="parse"):
        checked([*every, "sum by (pod (up)"])
