"""What the tests of charts read: rules, the documented permissions, rendered manifests."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).resolve().parents[1]
CHECKOUT = CHARTS.parent
OPERATOR = CHARTS / "chiplog-operator"
CLUSTER = CHARTS / "chiplog-cluster"
MONITORING = CHARTS / "chiplog-monitoring"
PERMISSIONS = CHECKOUT / "docs" / "permissions.md"

ALL = "all"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, of one object or of all."""

    group: str
    resource: str
    object: str
    verb: str


def rights(rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """What rules of a Role grant, one by one."""
    return {
        Right(group, resource, name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [ALL])
        for verb in rule["verbs"]
    }


def covers(has: set[Right], right: Right) -> bool:
    """Whether somebody with these rights has that one."""
    of_all = Right(right.group, right.resource, ALL, right.verb)
    return right in has or of_all in has


def chart_rights(name: str) -> set[Right]:
    """What one of the rule files of the operator's chart grants; `namespaced` with Secrets."""
    names = ("namespaced", "secrets") if name == "namespaced" else (name,)
    files = ((OPERATOR / "rules" / f"{one}.yaml").read_text() for one in names)
    return {right for file in files for right in rights(yaml.safe_load(file))}


def documented(heading: str) -> set[Right]:
    """What the table below a heading of docs/permissions.md says."""
    found = {right for row in _rows(heading) for right in _row_rights(row)}
    assert found, f"docs/permissions.md has no table below {heading!r}"
    return found


def _rows(heading: str) -> Iterator[list[str]]:
    _, _, below = PERMISSIONS.read_text().partition(f"\n{heading}\n")
    section = below.split("\n#")[0]
    for line in section.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in {"API group", "---"}:
            yield cells


def _row_rights(cells: list[str]) -> Iterator[Right]:
    group, resource, name, verbs, what_for = cells
    assert what_for, f"the row of {resource} does not say what for"
    for verb in verbs.split(","):
        yield Right("" if group == "core" else group, resource, name, verb.strip())


ALL_NAMESPACES = ("--set", "watchAllNamespaces=true")


def scope(chart: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """What the operator's chart has to be told where a test does not care."""
    is_said = any("watch" in one and "Namespaces" in one for one in arguments)
    return () if is_said or chart != OPERATOR else ALL_NAMESPACES


def render(
    helm: Path, chart: Path, *arguments: str, release: str = "chiplog", with_tests: bool = False
) -> str:
    """What a chart becomes, as text, without what `helm test` makes of it.

    Raises `CalledProcessError` where it is refused.
    """
    tests = () if with_tests else ("--skip-tests",)
    command = [helm, "template", release, chart, *arguments, *tests, *scope(chart, arguments)]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def notes(helm: Path, chart: Path, folder: Path, *arguments: str) -> str:
    """What Helm says after an installation. `folder` is for a copy of the chart, to which a dry run
    says nothing of Kubernetes' version."""
    copy = folder / chart.name
    shutil.copytree(chart, copy, dirs_exist_ok=True)
    about = copy / "Chart.yaml"
    about.write_text(re.sub(r"^kubeVersion:.*\n", "", about.read_text(), flags=re.MULTILINE))
    given = (*arguments, *scope(chart, arguments))
    command = [helm, "install", "chiplog", copy, "--dry-run=client", *given]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True, timeout=60
    )
    _, found, text = done.stdout.partition("\nNOTES:\n")
    assert found, done.stdout[-500:]
    return text


def manifests(text: str) -> list[Manifest]:
    """The manifests of a rendered text."""
    return [one for one in yaml.safe_load_all(text) if one]


def by_kind(found: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [one for one in found if one["kind"] == kind]
