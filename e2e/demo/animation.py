"""Draws frames of a terminal as one animated SVG, without scripts or external files.

Its text can be selected. Each line of text is one element, which CSS makes visible for its time.
A viewer that does not animate shows the last frame.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final, NamedTuple

COLOURS: Final = {
    "": "#c5c8c6",
    "prompt": "#f5f5f5",
    "dim": "#7d8590",
    "good": "#7ee787",
    "bad": "#ff7b72",
    "new": "#f2cc60",
}
CHARACTER_WIDTH, LINE_HEIGHT = 8.4, 19
MARGIN, TITLE_HEIGHT = 16, 36
FONT: Final = "14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


class Span(NamedTuple):
    """Text in one of `COLOURS`."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What the terminal shows from `at_s` on, in seconds after the first frame, to the next
    frame."""

    at_s: float
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of text that is visible in one row from `from_s` until `until_s`."""

    row: int
    line: Line
    from_s: float
    until_s: float


def shown(frames: Sequence[Frame], end_s: float) -> Iterator[Shown]:
    """The lines of all rows, each with the time in which its row stays the same.

    Blank lines are left out. The last frame is visible until `end_s`.
    """
    ends_s = [*(one.at_s for one in frames[1:]), end_s]
    for row in range(max(len(one.lines) for one in frames)):
        lines = [one.lines[row] if row < len(one.lines) else () for one in frames]
        for line, same in groupby(range(len(frames)), key=lines.__getitem__):
            numbers = list(same)
            if "".join(span.text for span in line).strip():
                yield Shown(row, line, frames[numbers[0]].at_s, ends_s[numbers[-1]])


def animated(frames: Sequence[Frame], end_s: float, title: str) -> str:
    """The text of the SVG; its animation starts again after `end_s`."""
    rows = max(len(one.lines) for one in frames)
    columns = max(sum(len(span.text) for span in line) for one in frames for line in one.lines)
    width = round(columns * CHARACTER_WIDTH + 2 * MARGIN)
    height = TITLE_HEIGHT + rows * LINE_HEIGHT + MARGIN
    styles, texts = [], []
    for number, one in enumerate(shown(frames, end_s)):
        name = f"l{number}"
        if one.from_s > 0 or one.until_s < end_s:
            styles.append(_timed(name, one, end_s))
        texts.append(_text(name, one))
    colours = "".join(f".{name or 'plain'}{{fill:{value}}}" for name, value in COLOURS.items())
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    label, middle = escape(title), width / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>text{{font:{FONT};white-space:pre}}{colours}",
        *styles,
        "</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
        f'<text class="dim" x="{middle:g}" y="23" text-anchor="middle">{label}</text>',
        *texts,
        "</svg>\n",
    ]
    return "\n".join(parts)


def _timed(name: str, one: Shown, end_s: float) -> str:
    """CSS that makes a line visible only for its time.

    Without animation, exactly the lines of the last frame are visible.
    """
    begin, end = (100 * moment / end_s for moment in (one.from_s, one.until_s))
    steps = {0.0: "hidden", begin: "visible"} | ({end: "hidden"} if end < 100 else {})
    keys = "".join(f"{at:.2f}%{{visibility:{what}}}" for at, what in sorted(steps.items()))
    still = "visible" if end >= 100 else "hidden"
    return (
        f"@keyframes {name}{{{keys}}}"
        f"#{name}{{visibility:{still};animation:{name} {end_s:.2f}s step-end infinite}}"
    )


def _text(name: str, one: Shown) -> str:
    """An SVG text element: one line at its row; `name` is its id, which its animation refers to."""
    y = TITLE_HEIGHT + one.row * LINE_HEIGHT + 14
    spans = "".join(
        f'<tspan class="{span.style or "plain"}">{escape(span.text)}</tspan>' for span in one.line
    )
    return f'<text id="{name}" x="{MARGIN}" y="{y}" xml:space="preserve">{spans}</text>'
