"""What the tests of alerts read: the rules, their tests, and which metrics there are."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from charts.tests.files import CHECKOUT, MONITORING

RULES = sorted((MONITORING / "rules").glob("*.yaml"))
TESTS = Path(__file__).resolve().parent / "alerts"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
LIST = CHECKOUT / "docs" / "alerts.md"
METRICS = CHECKOUT / "docs" / "reference" / "metrics.md"
"""Generated from the collectors of broker and operator."""

_METRIC = re.compile(r"\b(?:chiplog|kafka)_[a-z0-9_]+")
EXPORTED = re.compile(r"\b(chiplog|kafka|process)_\w+|\bup\{")
"""What Chiplog's processes tell, or Prometheus of them."""
_QUOTED = re.compile(r'"[^"]*"')
_ENDING = re.compile(r"_(bucket|count|sum|total)$")


def rules_in(path: Path) -> Iterator[dict[str, Any]]:
    """The rules of a rule file."""
    for group in yaml.safe_load(path.read_text())["groups"]:
        yield from group["rules"]


def metrics_in(expr: str) -> set[str]:
    """Chiplog's own metrics that an expression asks for."""
    return set(_METRIC.findall(_QUOTED.sub("", expr)))


def unknown(expr: str) -> set[str]:
    """Those that neither broker nor operator has."""
    known = set(_METRIC.findall(METRICS.read_text()))
    return {name for name in metrics_in(expr) if not {name, _ENDING.sub("", name)} & known}


ALERTS = [(path, rule) for path in RULES for rule in rules_in(path)]
