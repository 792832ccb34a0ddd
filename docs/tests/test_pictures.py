"""The pictures are whole, and have everything that they are drawn from."""

from collections.abc import Callable, Mapping
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from chiplog_core.groups.states import TRANSITIONS
from chiplog_core.transactions.states import TRANSITIONS as TRANSACTION_TRANSITIONS
from chiplog_core.validate.unbuilt import UNBUILT
from docs import pictures, unbuilt
from docs.drawing import Box, boxes

SVG = "{http://www.w3.org/2000/svg}"
PER_CHARACTER = 7
"""About how wide a character is, in pixels."""


def read(picture: str) -> Element:
    return fromstring(picture)  # noqa: S314 - it is our own


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_reads_and_nothing_is_outside_of_it(name: str) -> None:
    root = read(pictures.PICTURES[name]())
    _, _, width, height = map(int, root.attrib["viewBox"].split())

    for one in root.iter(f"{SVG}text"):
        x, long = int(one.attrib["x"]), PER_CHARACTER * len(one.text or "")
        left = x if one.attrib["text-anchor"] == "start" else x - long // 2
        assert 0 <= left <= left + long <= width, one.text
        assert 0 < int(one.attrib["y"]) < height, one.text
    for line in root.iter(f"{SVG}polyline"):
        for point in line.attrib["points"].split():
            x, y = map(int, point.split(","))
            assert (0 <= x <= width, 0 <= y <= height) == (True, True), point


STATES: Mapping[str, tuple[Callable[[], str], Callable[[], str], Mapping[Any, str]]] = {
    "group": (pictures.group_states, pictures.group_transitions, TRANSITIONS),
    "transaction": (
        pictures.transaction_states,
        pictures.transaction_transitions,
        TRANSACTION_TRANSITIONS,
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_every_transition_is_drawn_and_named(name: str) -> None:
    picture, transitions_table, transitions = STATES[name]
    numbers = {one.text for one in read(picture()).iter(f"{SVG}text")}
    lines = transitions_table().splitlines()
    ways = dict.fromkeys((before, after) for (before, _), after in transitions.items())

    assert len(lines) == 2 + len(ways)
    for number, (before, after) in enumerate(ways, start=1):
        assert str(number) in numbers
        assert lines[number + 1].startswith(f"| {number} | {before} | {after} |")
    for (before, happening), after in transitions.items():
        assert any(f"| {before} | {after} |" in line and happening in line for line in lines)


def test_texts_are_no_markup() -> None:
    picture = boxes(100, 50, [Box(0, 0, 90, 40, "a < b & c")])

    assert [one.text for one in read(picture).iter(f"{SVG}text")] == ["a < b & c"]


def test_everything_that_is_refused_is_listed() -> None:
    listed = unbuilt.part()

    assert all(f"| {feature} | {remedy} |" in listed for feature, remedy in UNBUILT.items())
