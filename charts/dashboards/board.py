"""A dashboard as rows of panels, and the JSON that Grafana takes for it.

Where panels stand follows from their order and width. Every query goes to the data source that is
chosen on top of the dashboard, so nothing here names one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["timeseries", "stat"]

COLUMNS: Final = 24
HEIGHTS: Final[Mapping[str, int]] = {"timeseries": 8, "stat": 4}
SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION: Final = 39
"""The schema of Grafana 10.4; newer versions convert it when they load a dashboard."""


@dataclass(frozen=True, slots=True)
class Line:
    """A query, and the names of its series, which may contain labels in `{{}}`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel: lines over time, or one number."""

    title: str
    lines: Sequence[Line]
    unit: str = "short"
    about: str = ""
    width: int = 8
    kind: Kind = "timeseries"
    red_from: float | None = None
    """A number turns red from this value on."""
    red_below: float | None = None
    """A number is red below this value."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice on top of the dashboard: one of the values of a label in the selected series."""

    name: str
    selector: str
    label: str
    is_many: bool = False
    """Whether several or all values may be chosen. Queries then match the label with =~."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard."""

    name: str
    title: str
    about: str
    variables: Sequence[Variable]
    rows: Sequence[Row]


def number(
    title: str,
    expr: str,
    *,
    unit: str = "short",
    about: str = "",
    red_from: float | None = None,
    red_below: float | None = None,
) -> Panel:
    """A panel with one number, which is red from `red_from` on, and below `red_below`."""
    return Panel(
        title=title,
        lines=(Line(expr),),
        unit=unit,
        width=4,
        about=about,
        kind="stat",
        red_from=red_from,
        red_below=red_below,
    )


def lines(
    title: str, *queries: Line, unit: str = "short", width: int = 8, about: str = ""
) -> Panel:
    """A panel with lines over time. The width is in `COLUMNS`."""
    return Panel(title=title, lines=queries, unit=unit, width=width, about=about)


def to_json(board: Board) -> Json:
    """The dashboard as the JSON that Grafana imports."""
    return {
        "uid": f"chiplog-{board.name}",
        "title": board.title,
        "description": board.about,
        "tags": ["chiplog", "kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "links": [
            {
                "type": "dashboards",
                "title": "Chiplog",
                "tags": ["chiplog"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_source(), *map(_variable, board.variables)]},
        "annotations": {"list": []},
        "panels": list(_placed(board.rows)),
    }


def _source() -> Json:
    """The variable by which users choose the data source."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> Json:
    """The JSON of a variable whose values come from a label."""
    query = f"label_values({variable.selector}, {variable.label})"
    many = {"includeAll": True, "allValue": ".*", "multi": True} if variable.is_many else {}
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,  # whenever the time that is shown changes
        "sort": 1,
        **many,
    }


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """The JSON of rows and panels, numbered from 1. Panels are placed side by side, and below if
    the width is used up. x and y are in Grafana's grid."""
    y = 0
    number = 0
    for row in rows:
        number += 1
        yield _row(row, number, y)
        y += 1
        x, height = 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            height = HEIGHTS[panel.kind]
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": height})
            x += panel.width
        y += height


def _row(row: Row, number: int, y: int) -> Json:
    """The JSON of a row's title."""
    place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {
        "id": number,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(panel: Panel, number: int, place: Json) -> Json:
    """The JSON of a panel at a place in the grid."""
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": line.expr,
                "legendFormat": line.legend or "__auto",
            }
            for index, line in enumerate(panel.lines)
        ],
    }


def _field(panel: Panel) -> Json:
    """How Grafana shows a panel's values: unit, style of lines, and colours of a number."""
    if panel.kind == "timeseries":
        drawn = {"fillOpacity": 10, "showPoints": "never", "spanNulls": False}
        return {"unit": panel.unit, "min": 0, "custom": drawn}
    steps: list[Json] = [{"color": "green" if panel.red_below is None else "red", "value": None}]
    if panel.red_below is not None:
        steps.append({"color": "green", "value": panel.red_below})
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}


def _options(panel: Panel) -> Json:
    """Grafana's options for the kind of panel."""
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
