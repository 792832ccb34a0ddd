"""Documents lead somewhere: every relative link in a Markdown file names a file that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(?P<title>.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("http://", "https://", "mailto:")


def documents(checkout: Path) -> list[Path]:
    found = checkout.rglob("*.md")
    return [
        path
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(checkout).parts)
    ]


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as a reader's browser makes them."""
    titles = (match["title"] for match in HEADING.finditer(FENCED.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def broken(path: Path) -> Iterator[str]:
    """The links of one document that lead nowhere."""
    text = path.read_text()
    for match in LINK.finditer(FENCED.sub("", text)):
        target, _, anchor = match["target"].partition("#")
        if target.startswith(ELSEWHERE):
            continue
        there = path.parent / target if target else path
        if not there.exists() or not has_anchor(there, anchor):
            yield match["target"]


def has_anchor(there: Path, anchor: str) -> bool:
    return not anchor or there.suffix != ".md" or anchor in anchors(there.read_text())


def test_every_relative_link_leads_to_a_file(checkout: Path) -> None:
    found = documents(checkout)
    assert checkout / "README.md" in found
    assert {
        str(path.relative_to(checkout)): [*broken(path)] for path in found if [*broken(path)]
    } == {}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[self](#a-title) [none](#no-title) [gone](gone.md) [out](https://example.org)\n"
        "```\n[code](in-a-fence.md)\n```\n"
    )
    assert [*broken(page)] == ["#no-title", "gone.md"]
