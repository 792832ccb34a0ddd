"""Each image has the modules of ours that its programs import."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.images import COMPONENTS, Component

OURS = ("chiplog_core", "chiplog_kube", "chiplog_wire")


def sources(component: Component) -> Iterator[Path]:
    for part in component.packages:
        yield from (part.rglob("*.py") if part.is_dir() else (part,))


def module_of(path: Path) -> str:
    """`chiplog_wire.scram` for .../chiplog_wire/scram.py."""
    parts = path.with_suffix("").parts
    start = next(n for n, one in enumerate(parts) if one.startswith("chiplog_"))
    return ".".join(parts[start:]).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """Modules that are imported, and perhaps names in them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: one.name)
def test_an_image_has_what_its_programs_import(component: Component) -> None:
    there = {module_of(path) for path in sources(component)}
    wanted = {
        (path.name, one)
        for path in sources(component)
        for one in imported(path)
        if one.startswith(OURS)
    }
    missing = [
        (file, one)
        for file, one in sorted(wanted)
        if one not in there and one.rpartition(".")[0] not in there
    ]
    assert missing == []
