"""The commands of a page: its fenced blocks, in order.

In a block of the language `console` a line that begins with `$ ` is typed, together with the lines
that follow it as long as one ends in a backslash; what stands below is what it must print. In a
block of the language `shell` everything is typed, and what it prints does not matter. Other
languages are for reading.

A comment on the line before a block says more about it:

    <!-- docs-test: until -->   typed again until it prints that, for at most a minute
    <!-- docs-test: fails -->   the last command of the block ends with another status than 0
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PROMPT: Final = "$ "
BLOCK: Final = re.compile(
    r"^(?:<!-- docs-test: (?P<note>[a-z]+) -->\n)?"
    r"```(?P<language>console|shell)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NOTE: Final = re.compile(r"^<!-- docs-test:.*$", re.MULTILINE)


class Note(StrEnum):
    """What a comment may say."""

    UNTIL = "until"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Command:
    """One command and what it prints, both as they stand on the page."""

    line: int
    """Where it stands, from 1."""

    typed: str
    output: str | None
    """None where it does not matter. Each line with its newline."""

    begin: int
    end: int
    """Where the output stands in the page's text."""

    is_repeated: bool = False
    fails: bool = False


def commands(markdown: str) -> list[Command]:
    """Every command of a page; a `ValueError` names a comment that means nothing."""
    blocks = list(BLOCK.finditer(markdown))
    meant = {block.start() for block in blocks if block["note"] in set(Note)}
    for note in NOTE.finditer(markdown):
        if note.start() not in meant:
            line = line_of(markdown, note.start())
            raise ValueError(
                f"line {line}: {note[0]} must say {' or '.join(Note)} right before a block"
            )
    return [command for block in blocks for command in of_block(markdown, block)]


def of_block(markdown: str, block: "re.Match[str]") -> Iterator[Command]:
    if block["language"] == "shell":
        line = line_of(markdown, block.start("body"))
        yield Command(line, block["body"], None, block.end("body"), block.end("body"))
        return
    found = list(typed(block["body"]))
    if not found:
        line = line_of(markdown, block.start("body"))
        raise ValueError(f"line {line}: a console block begins with {PROMPT!r} and a command")
    ends = [begin for _, begin, _ in found[1:]] + [len(block["body"])]
    for (text, begin, after), end in zip(found, ends, strict=True):
        yield Command(
            line=line_of(markdown, block.start("body") + begin),
            typed=text,
            output=block["body"][after:end],
            begin=block.start("body") + after,
            end=block.start("body") + end,
            is_repeated=block["note"] == Note.UNTIL,
            fails=block["note"] == Note.FAILS and end == len(block["body"]),
        )


def typed(body: str) -> Iterator[tuple[str, int, int]]:
    """Each command of a console block, where it begins, and where what it prints begins."""
    at, begin, text = 0, 0, ""
    for line in body.splitlines(keepends=True):
        if text:
            text += line
        elif line.startswith(PROMPT):
            begin, text = at, line.removeprefix(PROMPT)
        at += len(line)
        if text and not text.endswith("\\\n"):
            yield text.rstrip("\n"), begin, at
            text = ""


def line_of(markdown: str, at: int) -> int:
    return markdown.count("\n", 0, at) + 1


def with_outputs(markdown: str, outputs: Iterable[tuple[Command, str]]) -> str:
    """The page with other outputs of some of its commands."""
    by_place: Mapping[int, tuple[Command, str]] = {one.begin: (one, text) for one, text in outputs}
    for begin in sorted(by_place, reverse=True):
        command, text = by_place[begin]
        whole = text if not text or text.endswith("\n") else text + "\n"
        markdown = markdown[:begin] + whole + markdown[command.end :]
    return markdown
