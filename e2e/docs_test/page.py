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
    """The words of a `docs-test` comment; the module's docstring explains them."""

    UNTIL = "until"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Command:
    """One command and what it prints, both as they stand on the page."""

    line: int
    """Line number on the page, from 1."""

    typed: str
    output: str | None
    """The output on the page, each line with its newline; None where any output is right."""

    begin: int
    end: int
    """Where the output begins and ends in the page's text, in characters."""

    is_repeated: bool = False
    fails: bool = False


def commands(markdown: str) -> list[Command]:
    """Every command of a page, in order.

    Raises `ValueError` for a comment with an unknown word, or without a block right after it.
    """
    blocks = list(BLOCK.finditer(markdown))
    understood = {block.start() for block in blocks if block["note"] in set(Note)}
    for note in NOTE.finditer(markdown):
        if note.start() not in understood:
            line = line_of(markdown, note.start())
            raise ValueError(
                f"line {line}: {note[0]} must say {' or '.join(Note)} "
                "and stand right before a block"
            )
    return [command for block in blocks for command in of_block(markdown, block)]


def of_block(markdown: str, block: "re.Match[str]") -> Iterator[Command]:
    """The commands of a block: one for a `shell` block, one for each prompt of a `console` block.

    Raises `ValueError` for a `console` block without a prompt.
    """
    if block["language"] == "shell":
        line = line_of(markdown, block.start("body"))
        yield Command(line, block["body"], None, block.end("body"), block.end("body"))
        return
    found = list(typed(block["body"]))
    if not found:
        line = line_of(markdown, block.start("body"))
        raise ValueError(f"line {line}: a console block begins with {PROMPT!r} and a command")
    # A command's output ends where the next command begins, or with the block.
    ends = [begin for _, begin, _ in found[1:]] + [len(block["body"])]
    for (text, begin, after), end in zip(found, ends, strict=True):
        yield Command(
            line=line_of(markdown, block.start("body") + begin),
            typed=text,
            output=block["body"][after:end],
            begin=block.start("body") + after,
            end=block.start("body") + end,
            is_repeated=block["note"] == Note.UNTIL,
            # Of a block with the comment "fails", only the last command is to fail.
            fails=block["note"] == Note.FAILS and end == len(block["body"]),
        )


def typed(body: str) -> Iterator[tuple[str, int, int]]:
    """Each command of a console block: (text, position of its prompt, position of its output).

    Positions are in characters from the beginning of `body`. A line that ends in a backslash is
    continued by the next one.
    """
    position, begin, text = 0, 0, ""
    for line in body.splitlines(keepends=True):
        if text:
            text += line
        elif line.startswith(PROMPT):
            begin, text = position, line.removeprefix(PROMPT)
        position += len(line)
        if text and not text.endswith("\\\n"):
            yield text.rstrip("\n"), begin, position
            text = ""


def line_of(markdown: str, position: int) -> int:
    """The line number, from 1, of a position in characters."""
    return markdown.count("\n", 0, position) + 1


def with_outputs(markdown: str, outputs: Iterable[tuple[Command, str]]) -> str:
    """The text of a page in which the outputs of the given commands are replaced."""
    by_begin: Mapping[int, tuple[Command, str]] = {one.begin: (one, text) for one, text in outputs}
    # From the end of the page, so that the positions of earlier outputs stay right.
    for begin in sorted(by_begin, reverse=True):
        command, text = by_begin[begin]
        output = text if not text or text.endswith("\n") else text + "\n"
        markdown = markdown[:begin] + output + markdown[command.end :]
    return markdown
