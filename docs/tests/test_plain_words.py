"""No text that users read has one of the words that the glossary replaces."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = (
    *("README.md", "docs/*.md", "docs/runbooks/*.md", "docs/reference/*.md"),
    *("charts/README.md", "charts/*/values.yaml", "charts/*/templates/NOTES.txt"),
    *("charts/chiplog-monitoring/rules/*.yaml", "charts/chiplog-monitoring/dashboards/*.json"),
    *("charts/chiplog-operator/policies/*.yaml", "crds/README.md", "crds/*.yaml"),
    *("crds/examples/*.yaml", "examples/**/*.yaml"),
)
SOURCES = (
    *("broker-image", "cli", "core", "crds", "e2e/demo", "kube", "operator", "spark-jobs", "wire"),
)
QUOTING = {"docs/glossary.md", "docs/mutants.md"}
"""Pages that quote the words, or code."""


def words() -> list[str]:
    """The first column of the glossary's last table."""
    table = GLOSSARY.read_text().split("<!-- words -->")[1].split("<!-- end of words -->")[0]
    rows = [row.split("|")[1] for row in table.strip().splitlines()[2:]]
    return [word.strip() for row in rows for word in row.split(",")]


def pattern() -> re.Pattern[str]:
    gaps = (r"\s+".join(map(re.escape, word.split())) for word in words())
    return re.compile(rf"\b(?:{'|'.join(gaps)})\b", re.IGNORECASE)


def pages() -> Iterator[Path]:
    for glob in PAGES:
        yield from sorted(ROOT.glob(glob))


def sources() -> Iterator[Path]:
    for folder in SOURCES:
        found = sorted((ROOT / folder).rglob("*.py"))
        yield from (path for path in found if "tests" not in path.parts)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of all strings of more than one word that are no docstring or assertion."""
    tree = ast.parse(path.read_text())
    left_out = {id(below) for text in _not_shown(tree) for below in ast.walk(text)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in left_out and " " in text.strip():
                yield node.lineno, text


def _not_shown(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, and what assertions say."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                yield node
            case ast.Assert(msg=ast.expr() as message):
                yield message


def found_in(path: Path) -> list[str]:
    name = str(path.relative_to(ROOT))
    read = texts(path) if path.suffix == ".py" else whole_page(path)
    unwanted = pattern()
    return [
        f"{name}:{line}: {match.group()!r}"
        for line, text in read
        for match in unwanted.finditer(text)
    ]


def whole_page(path: Path) -> Iterator[tuple[int, str]]:
    """The whole text without code and links: a phrase may lie on two lines."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", path.read_text(), flags=re.DOTALL)
    yield 1, text


def test_the_glossary_names_words() -> None:
    assert {"reign", "anew", "whoever"} <= set(words())


@pytest.mark.parametrize("glob", PAGES)
def test_pages_use_the_words_of_the_glossary(glob: str) -> None:
    found = [path for path in ROOT.glob(glob) if str(path.relative_to(ROOT)) not in QUOTING]
    assert found, "nothing is read"
    assert [one for path in sorted(found) for one in found_in(path)] == []


@pytest.mark.parametrize("folder", SOURCES)
def test_messages_use_the_words_of_the_glossary(folder: str) -> None:
    found = [path for path in sources() if path.is_relative_to(ROOT / folder)]
    assert found, "nothing is read"
    assert [one for path in found for one in found_in(path)] == []
