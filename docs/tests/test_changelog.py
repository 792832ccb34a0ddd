"""The changelog has a section for each version, the newest first, in Keep a Changelog's form."""

import re
from datetime import date

from charts.versions import PEP_440
from chiplog_core.version import VERSION
from docs.site_hooks import CHECKOUT

HEADING = re.compile(r"(?m)^## (.*)$")
RELEASE = re.compile(r"(?P<version>\d+\.\d+\.\d+) - (?P<date>Unreleased|\d{4}-\d{2}-\d{2})")
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
TEXT = (CHECKOUT / "CHANGELOG.md").read_text()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def releases() -> list[tuple[tuple[int, ...], str]]:
    """Version and date of each section."""
    found = []
    for title in HEADING.findall(TEXT):
        match = RELEASE.fullmatch(title)
        assert match, f"{title!r} is not 'X.Y.Z - YYYY-MM-DD' or 'X.Y.Z - Unreleased'"
        found.append((numbers(match["version"]), match["date"]))
    return found


def test_the_newest_section_is_of_the_version_that_is_made() -> None:
    """It has a date as soon as the version is no longer one in development, and then only."""
    (version, day), *older = releases()
    current = PEP_440.fullmatch(VERSION)
    assert current is not None
    assert version == numbers(current["release"])
    assert (day == "Unreleased") == (current["kind"] is not None)
    assert [one for one, _ in older] == sorted({one for one, _ in older}, reverse=True)
    assert all(one < version for one, _ in older)
    assert all(date.fromisoformat(day) for _, day in older)


def test_entries_stand_under_their_kind() -> None:
    assert set(re.findall(r"(?m)^### (.*)$", TEXT)) <= set(KINDS)
