"""Patterns of transactional ids, as ListTransactions has them (KIP-1152).

Kafka matches them with RE2, in linear time. Python's `re` may need time that is exponential in the
length of the id, and any client may send a pattern. So the pattern is matched here, all positions
at the same time, and it may have single characters, sets, `.`, escapes, the repeats `*`, `+` and
`?`, and alternatives with `|`, but no groups.
"""

import re
from typing import Final

MAX_PATTERN_LENGTH: Final = 255
MAX_REMEMBERED: Final = 256
"""Characters whose matching parts are remembered."""
_ONE: Final = re.compile(r"(\[\^?\]?(?:[^\]\\]|\\.)*\]|\\.|[^\\\[\](){}*+?^$|])([*+?]?)", re.DOTALL)
"""What matches one character, and its repeat."""


class IdPattern:
    """A pattern that matches whole ids. Raises `ValueError` for a pattern that is not supported."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise ValueError(f"the pattern has more than {MAX_PATTERN_LENGTH} characters")
        self._alternatives = [_Alternative(one) for one in _alternatives(pattern)]

    def matches(self, transactional_id: str) -> bool:
        """Whether the pattern, or one of its alternatives, matches the whole id."""
        return any(one.matches(transactional_id) for one in self._alternatives)


def _alternatives(pattern: str) -> list[str]:
    """The alternatives between the `|` of a pattern."""
    found, position = [""], 0
    while position < len(pattern):
        if pattern[position] == "|":
            found.append("")
            position += 1
            continue
        match = _ONE.match(pattern, position)
        if match is None:
            raise ValueError(f"the pattern is not supported from {pattern[position:]!r} on")
        found[-1] += match.group()
        position = match.end()
    return found


class _Alternative:
    """A sequence of parts, each of which matches characters one by one.

    The parts that may be next are the bits of a number, so one step of a few operations takes a
    character past all of them.
    """

    def __init__(self, pattern: str) -> None:
        self._parts: list[re.Pattern[str]] = []
        self._may_be_absent = 0
        """A bit for each part with `*` or `?`."""
        self._may_repeat = 0
        """A bit for each part with `*` or `+`."""
        self._matching: dict[str, int] = {}
        """Character -> a bit for each part that matches it, for the characters seen last."""
        for match in _ONE.finditer(pattern):
            one, repeat = match.groups()
            bit = 1 << len(self._parts)
            self._may_be_absent |= bit if repeat in {"*", "?"} else 0
            self._may_repeat |= bit if repeat in {"*", "+"} else 0
            try:
                self._parts.append(re.compile(one, re.DOTALL))
            except re.error as error:
                raise ValueError(f"{one}: {error}") from error

    def matches(self, text: str) -> bool:
        """Whether the parts match the whole text."""
        places = self._with_absent(1)
        for character in text:
            moving = places & self._matching_parts(character)
            places = self._with_absent(moving << 1 | moving & self._may_repeat)
            if not places:
                return False
        return bool(places >> len(self._parts))

    def _with_absent(self, places: int) -> int:
        """These places, and those behind parts that may be absent.

        The carry of the addition runs through a row of such parts, from the first place in it to
        the part behind its end. The bits that it changes are the places that can be reached.
        """
        absent = self._may_be_absent
        return places | ((absent + (places & absent)) ^ absent)

    def _matching_parts(self, character: str) -> int:
        """A bit for each part that matches this character."""
        found = self._matching.get(character)
        if found is None:
            found = sum(
                1 << place for place, part in enumerate(self._parts) if part.fullmatch(character)
            )
            if len(self._matching) >= MAX_REMEMBERED:
                self._matching.clear()
            self._matching[character] = found
        return found
