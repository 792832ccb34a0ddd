"""Checks that core's tests reach every line and every branch of core, except for a list of those
that they cannot reach.

python core/uncovered.py    exit 1 and name each place that no test reaches and that is not in
                            core/uncovered.toml, and each place of the list that a test reaches now

Tests with random examples do not count, because the lines that they reach change from run to run.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

DIRECTORY: Final = Path(__file__).resolve().parent
LIST: Final = DIRECTORY / "uncovered.toml"
PACKAGE: Final = DIRECTORY / "chiplog_core"
MEASURE: Final = ("-m", "slipcover", "--branch", "--source", str(PACKAGE), "--json", "--out")
TESTS: Final = (
    *("-m", "pytest", "-q", "-n0", str(DIRECTORY / "tests")),
    *("-m", "not hypothesis"),  # what only random examples reach, they reach by chance
    # Slipcover imports what pytest would rewrite first.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Key(NamedTuple):
    """Identifies a place in the list by the text of its line, so that the entry stays valid if the
    line moves, and becomes invalid if the line changes."""

    module: str
    """Like `groups/reset.py`."""
    text: str
    """Text of the place's first line, without its indentation."""


Places = Mapping[Key, Sequence[int]]
"""Places that no test reaches, with the numbers of their first lines."""
Listed = Mapping[Key, int]
"""How often each key is in the list: once for each place with the same text."""


def read_list(text: str) -> Listed:
    """The list. A `ValueError` names an entry without a reason."""
    found: dict[Key, int] = defaultdict(int)
    for module, entries in tomllib.loads(text).items():
        for entry in entries:
            if not entry["reason"].strip():
                raise ValueError(f"{LIST.name}: {module}: {entry['line']!r} has no reason")
            found[Key(module, entry["line"])] += 1
    return found


def find_places(module: str, lines: Sequence[str], measured: Mapping[str, Any]) -> Places:
    """The places of one module that no test reaches, from slipcover's result. Adjacent lines are
    one place, and so are a line and the branch that leads to it."""
    missing = set(measured["missing_lines"])
    begins = {number for number in missing if number - 1 not in missing}
    for start, end in measured["missing_branches"]:
        if start not in missing and end not in missing:
            begins.add(start)
    found: dict[Key, list[int]] = defaultdict(list)
    for number in sorted(begins):
        found[Key(module, lines[number - 1].strip())].append(number)
    return found


def differences(places: Places, listed: Listed) -> Iterator[str]:
    """A sentence for each unreached place that is not in the list, and for each entry of the list
    whose place is reached."""
    for key, numbers in sorted(places.items()):
        if len(numbers) > listed.get(key, 0):
            where = ", ".join(map(str, numbers))
            yield f"{key.module}:{where}: no test of core reaches all of: {key.text}"
    for key, count in sorted(listed.items()):
        if count > len(places.get(key, ())):
            yield f"{key.module}: tests reach this now, remove it from {LIST.name}: {key.text}"


def measure() -> Mapping[str, Any] | None:
    """Run core's tests and return slipcover's result for each file; None if a test fails."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "coverage.json"
        command = [sys.executable, *MEASURE, str(out), *TESTS]
        if subprocess.run(command, cwd=DIRECTORY.parent, check=False).returncode:
            return None
        files: Mapping[str, Any] = json.loads(out.read_text())["files"]
        return files


def main() -> int:
    """Run the check; returns the exit code."""
    listed, files = read_list(LIST.read_text()), measure()
    if files is None:
        sys.stderr.write("core's tests failed\n")
        return 1
    places: dict[Key, Sequence[int]] = {}
    for name, measured in files.items():
        path = DIRECTORY.parent / name
        module = str(path.relative_to(PACKAGE))
        places.update(find_places(module, path.read_text().splitlines(), measured))
    found = list(differences(places, listed))
    for sentence in found:
        sys.stderr.write(f"core/chiplog_core/{sentence}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
