"""The manifests beside the definitions, as tests read them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chiplog_core.model.resource import Resource
from crds.schema.definition import Definition
from crds.schema.kinds import DEFINITIONS

FOLDER = Path(__file__).resolve().parents[1]
EXPECT = "# expect: "

ORDERS = FOLDER.parent / "examples" / "orders.yaml"
EXAMPLES = [
    *ORDERS.parent.glob("*.yaml"),
    *(FOLDER / "examples").glob("*.yaml"),
    *(FOLDER / "examples/internal").glob("*.yaml"),
]
INVALID = sorted((FOLDER / "invalid").glob("*.yaml"))

_DEFINITIONS = {definition.model.KIND.kind: definition for definition in DEFINITIONS}


@dataclass(frozen=True, slots=True)
class InvalidFile:
    """A manifest that must be refused, and what must be in place before it."""

    expect: str
    before: str | None
    refused: str

    @property
    def manifest(self) -> dict[str, Any]:
        return one_manifest(self.refused)


def invalid_file(path: Path) -> InvalidFile:
    """Read a file of `crds/invalid`."""
    first_line, _, _ = path.read_text().partition("\n")
    *before, refused = path.read_text().split("---\n")
    return InvalidFile(
        first_line.removeprefix(EXPECT) if first_line.startswith(EXPECT) else "",
        before[0] if before else None,
        refused,
    )


def manifests(path: Path) -> list[dict[str, Any]]:
    """Every manifest of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def one_manifest(text: str) -> dict[str, Any]:
    """The manifest a text holds."""
    manifest: dict[str, Any] = yaml.safe_load(text)
    return manifest


def definition_of(manifest: dict[str, Any]) -> Definition:
    """The definition of a manifest's kind."""
    return _DEFINITIONS[manifest["kind"]]


def model_of(manifest: dict[str, Any]) -> type[Resource]:
    """The class of a manifest's kind."""
    return definition_of(manifest).model
