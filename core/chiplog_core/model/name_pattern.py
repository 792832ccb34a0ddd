"""Patterns for topic names: regular expressions that mean the same in the API server and here.

The API server matches them with RE2, the operator with this module. So a pattern may only contain
what all regular expressions have in common: characters of topic names, `.`, classes, groups,
alternatives and counts. Patterns are written by users and must not block the operator. So they are
matched without backtracking, in a time of at most the pattern's size times the name's length.
"""

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters of topic names; others need not be matched."""

_ESCAPES = {
    "d": frozenset(string.digits),
    "D": NAME_CHARACTERS - frozenset(string.digits),
    "w": NAME_CHARACTERS - frozenset(".-"),
    "W": frozenset(".-"),
    ".": frozenset("."),
    "-": frozenset("-"),
    "_": frozenset("_"),
}
_ESCAPE = r"\\[dDwW._-]"
_CLASS = rf"\[\^?(?:[A-Za-z0-9_.-]|{_ESCAPE})+\]"
_COUNT = r"\{[0-9]{1,3}(?:,[0-9]{0,3})?\}"
_ATOM = rf"[A-Za-z0-9_.)-]|{_ESCAPE}|{_CLASS}"
SHARED_SYNTAX = rf"\^?(?:\((?:\?:)?|\||(?:{_ATOM})(?:[*+?]|{_COUNT})?)+\$?"
"""Matches every valid pattern, and also patterns with unbalanced parentheses, which a regular
expression cannot find; `read_pattern` does. Anchors are allowed only at the ends, where they change
nothing, because a pattern always matches whole names."""

SHARED_SYNTAX_MEANING = (
    "a regular expression of letters, digits, '.', '_', '-', classes like [a-z0-9-], groups, "
    "alternatives and counts, like payments\\.[a-z-]+"
)
_TOKEN = re.compile(rf"(?P<open>\((?:\?:)?)|(?P<atom>{_ATOM}|\|)|(?P<count>[*+?]|{_COUNT})")

MAX_STEPS = 1_000
"""How many steps a pattern may have, in which counts like {1,100} are written out."""

MAX_DEPTH = 20
"""How deep groups may be nested."""

_Fragment: TypeAlias = "_Set | _Sequence | _Either | _Repeat"


@dataclass(frozen=True, slots=True)
class _Set:
    """Matches one of these characters."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Matches all parts, one after the other."""

    parts: tuple[_Fragment, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    """Matches one of the choices."""

    choices: tuple[_Fragment, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Matches the part from `least` to `most` times; `most` is None for no limit."""

    part: _Fragment
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A state of the matching automaton. It either matches one of `characters` and continues with
    the next step, or continues, without a character, with all `targets`: distances from this
    step."""

    characters: frozenset[str] = frozenset()
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A parsed pattern."""

    steps: tuple[_Step, ...]
    """A match begins at the first step and ends behind the last one."""

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole name."""
        reached = self._reached([0])
        for character in name:
            steps = ((index, self.steps[index]) for index in reached if index < len(self.steps))
            reached = self._reached(
                index + 1 for index, step in steps if character in step.characters
            )
        return len(self.steps) in reached

    def _reached(self, starts: Iterable[int]) -> set[int]:
        """The indexes of all steps that are reached from `starts` without matching a character. The
        end of the pattern is the index behind the last step."""
        reached: set[int] = set()
        waiting = list(starts)
        while waiting:
            index = waiting.pop()
            if index not in reached:
                reached.add(index)
                if index < len(self.steps):
                    waiting += [index + target for target in self.steps[index].targets]
        return reached


@lru_cache(maxsize=256)
def read_pattern(text: str) -> NamePattern:
    """Parse a pattern. Raises `ValueError`, which says what is wrong with it."""
    if not re.fullmatch(SHARED_SYNTAX, text):
        raise ValueError(f"it is not {SHARED_SYNTAX_MEANING}")
    inner = text.removeprefix("^").removesuffix("$")
    return NamePattern(tuple(_compiled(_Reader(inner).read())))


@lru_cache(maxsize=65_536)
def name_matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name. Every plan asks this for every topic."""
    return read_pattern(pattern).matches(name)


class _Reader:
    """Parses the text of a pattern, which matches `SHARED_SYNTAX`, into fragments."""

    def __init__(self, text: str) -> None:
        # Each token's kind (open, atom or count: a group of `_TOKEN`) and its text.
        self._tokens = [(found.lastgroup, found[0]) for found in _TOKEN.finditer(text)]
        self._at = 0  # index of the next token
        self._depth = 0  # number of open groups

    def read(self) -> _Fragment:
        """The whole pattern. Raises `ValueError` if its parentheses are not balanced."""
        found = self._either()
        if self._at < len(self._tokens):
            raise ValueError("it has a ) without a (")
        return found

    def _peek(self) -> str:
        """The next token, which stays the next one; empty at the end."""
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        """The next token, which is consumed. There must be one."""
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _either(self) -> _Fragment:
        """Parse choices separated by `|`."""
        choices = [self._sequence()]
        while self._peek() == "|":
            self._next()
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else _Either(tuple(choices))

    def _sequence(self) -> _Fragment:
        """Parse parts that follow one another, up to a `|`, a `)` or the end."""
        parts = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._counted(self._atom()))
        return _Sequence(tuple(parts))

    def _atom(self) -> _Fragment:
        """Parse a group, a class in brackets, an escape, or one character."""
        kind, piece = self._tokens[self._at]
        self._at += 1
        if kind == "open":
            return self._group()
        if piece.startswith("["):
            return _Set(_class(piece[1:-1]))
        if piece.startswith("\\"):
            return _Set(_ESCAPES[piece[1]])
        return _Set(NAME_CHARACTERS if piece == "." else frozenset(piece))

    def _group(self) -> _Fragment:
        """Parse the rest of a group, after its `(`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"its groups are nested deeper than {MAX_DEPTH}")
        inside = self._either()
        if self._peek() != ")":
            raise ValueError("it has a ( without a )")
        self._at += 1
        self._depth -= 1
        return inside

    def _counted(self, part: _Fragment) -> _Fragment:
        """The part, repeated if a count follows: `*`, `+`, `?` or like `{1,3}`."""
        if self._at == len(self._tokens) or self._tokens[self._at][0] != "count":
            return part
        piece = self._next()
        if piece in "*+?":
            return _Repeat(part, int(piece == "+"), 1 if piece == "?" else None)
        # {3} is exactly three times, {3,} at least three times.
        least, comma, most = piece[1:-1].partition(",")
        found = _Repeat(part, int(least), int(most or least) if most or not comma else None)
        if found.most is not None and found.most < found.least:
            raise ValueError(f"its count {piece} has a maximum below its minimum")
        return found


def _class(text: str) -> frozenset[str]:
    """The characters that a bracket class allows; `text` is what is between the brackets. Raises
    `ValueError`."""
    items = re.findall(rf"{_ESCAPE}|.", text.removeprefix("^"))
    characters: set[str] = set()
    position = 0
    while position < len(items):
        # A range like a-z: the next item is a hyphen, and one more item follows.
        is_range = items[position + 1 : position + 2] == ["-"] and position + 2 < len(items)
        if items[position] == "-" and 0 < position < len(items) - 1:
            raise ValueError(f"its class [{text}] has a - that is neither first nor last")
        characters |= (
            _range(items[position], items[position + 2]) if is_range else _single(items[position])
        )
        position += 3 if is_range else 1
    return NAME_CHARACTERS - characters if text.startswith("^") else frozenset(characters)


def _single(item: str) -> frozenset[str]:
    """The character itself, or the characters that an escape like `\\d` stands for."""
    return _ESCAPES[item[1]] if len(item) > 1 else frozenset(item)


def _range(first: str, last: str) -> set[str]:
    """The characters of a range like a-z. Raises `ValueError` if it is not one from a character to
    the same or a later one."""
    if len(first) > 1 or len(last) > 1 or last < first:
        raise ValueError(f"its range {first}-{last} does not go from a character to a later one")
    return {chr(code) for code in range(ord(first), ord(last) + 1)}


def _compiled(part: _Fragment) -> list[_Step]:
    """The steps of a fragment: it has matched when the step behind the last one is reached. Raises
    `ValueError` if there are more than `MAX_STEPS`."""
    match part:
        case _Set(characters):
            steps = [_Step(characters)]
        case _Sequence(parts):
            steps = [step for part in parts for step in _compiled(part)]
        case _Either(choices):
            steps = _compiled_choices(choices)
        case _Repeat(one, least, most):
            steps = _compiled_repeat(_compiled(one), least, most)
    if len(steps) > MAX_STEPS:
        raise ValueError(
            f"it has more than {MAX_STEPS} steps when its counts, like {{1,100}}, are written out: "
            "lower its counts"
        )
    return steps


def _compiled_choices(choices: tuple[_Fragment, ...]) -> list[_Step]:
    """Steps that branch into each of the choices. Each choice but the last ends with a jump behind
    the last step.

    The steps of two choices are: split, first choice, leave, second choice. `split` continues at
    the beginning of either choice, `leave` behind the second one.
    """
    *others, last = map(_compiled, choices)
    steps = last
    for choice in reversed(others):
        split, leave = _Step(targets=(1, len(choice) + 2)), _Step(targets=(len(steps) + 1,))
        steps = [split, *choice, leave, *steps]
    return steps


def _compiled_repeat(body: list[_Step], least: int, most: int | None) -> list[_Step]:
    """The steps of `body` repeated: `least` times, then optionally up to `most` times, or in a loop
    if `most` is None.

    In the loop, `split` continues at the body or behind `back`, and `back` continues at `split`.
    """
    if most is None:
        split, back = _Step(targets=(1, len(body) + 2)), _Step(targets=(-len(body) - 1,))
        return [*body * least, split, *body, back]
    optional = [_Step(targets=(1, len(body) + 1)), *body]
    return body * least + optional * (most - least)
