"""The queries of a dashboard as Prometheus takes them: with a value for every variable."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

ANYTHING: Final = ".*"
EXAMPLE: Final[Mapping[str, str]] = {
    "namespace": "demo",
    "cluster": "demo",
    "topic": ANYTHING,
    "group": ANYTHING,
    "__rate_interval": "1m",
    "__range": "1h",
}
"""Values for the variables of all dashboards, and for those that Grafana has of its own."""

_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")
_LABEL_VALUES: Final = re.compile(r"label_values\((.*), \w+\)")


class Query(NamedTuple):
    """A query and the panel that shows it."""

    panel: str
    expr: str


def queries(dashboard: Mapping[str, Any], values: Mapping[str, str] = EXAMPLE) -> list[Query]:
    """All queries in a dashboard's JSON, including those of its variables, with these values in
    place of variables.

    A `KeyError` names a variable that has no value.
    """
    return [
        Query(panel, _VARIABLE.sub(lambda found: values[found[1]], expr))
        for panel, expr in _written(dashboard)
    ]


def _written(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The queries as they are written, each with the title of its panel or the variable's name."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert found, f"variable {variable['name']} is not a label_values() query"
            yield f"variable {variable['name']}", found[1]
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
