"""Pictures as SVG: boxes with arrows between them, and messages between lanes.

Everything is placed by hand, in pixels, x to the right and y down. Texts have no font of their own,
so none is fetched; their widths are not measured, so boxes are to be wide enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

INK: Final = "#263238"
PAPER: Final = "#ffffff"
FILLS: Final = {"plain": "#eceff1", "ours": "#dcedc8", "kubernetes": "#d6e4fa", "disk": "#ffecb3"}
LINE_HEIGHT: Final = 17
MARGIN: Final = 14

LANE_WIDTH: Final = 190
STEP_HEIGHT: Final = 44
HEAD_HEIGHT: Final = 36
OWN_STEP_WIDTH: Final = 60
"""Width to the right of the last lane, for messages within that lane."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a title and lines below it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    fill: str = "plain"


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points, with a head at its end, and also at its beginning if `both` is set."""

    points: tuple[tuple[int, int], ...]
    text: str = ""
    at: tuple[int, int] = (0, 0)
    """Where the middle of the text is."""

    both: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A step of a sequence: from one lane (by its number) to another, or within one."""

    source: int
    target: int
    text: str


def boxes(width: int, height: int, content: Sequence[Box | Arrow]) -> str:
    """The SVG of a picture with boxes and arrows."""
    drawn = [_box(item) if isinstance(item, Box) else _arrow(item) for item in content]
    return _picture(width, height, drawn)


def sequence(lanes: Sequence[str], messages: Sequence[Message]) -> str:
    """The SVG of a sequence diagram: lanes side by side, and messages from top to bottom."""
    width = LANE_WIDTH * len(lanes) + OWN_STEP_WIDTH
    height = HEAD_HEIGHT + STEP_HEIGHT * (len(messages) + 1)
    drawn = []
    for number, title in enumerate(lanes):
        middle = _middle(number)
        drawn.append(_line(((middle, HEAD_HEIGHT), (middle, height - MARGIN)), dashed=True))
        left = middle - LANE_WIDTH // 2 + 15
        drawn.append(_box(Box(left, 4, LANE_WIDTH - 30, HEAD_HEIGHT - 4, title, fill="ours")))
    for number, message in enumerate(messages):
        drawn.append(_message(message, HEAD_HEIGHT + STEP_HEIGHT * (number + 1)))
    return _picture(width, height, drawn)


def _message(message: Message, y: int) -> str:
    """A message at this height: an arrow, or a dot if it stays within its lane."""
    begin, end = _middle(message.source), _middle(message.target)
    if begin == end:
        dot = f'<circle cx="{begin}" cy="{y}" r="4" fill="{INK}"/>\n'
        return dot + _text(begin + 10, y + 4, message.text, anchor="start")
    text = _text((begin + end) // 2, y - 7, message.text)
    return _arrow(Arrow(((begin, y), (end, y)))) + text


def _middle(lane: int) -> int:
    """The x of a lane's middle."""
    return LANE_WIDTH * lane + LANE_WIDTH // 2


def _picture(width: int, height: int, drawn: Sequence[str]) -> str:
    """The SVG with its elements on a background."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">\n'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        f'markerHeight="8" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/>'
        "</marker></defs>\n"
        f'<rect width="{width}" height="{height}" rx="6" fill="{PAPER}"/>\n'
    )
    return head + "".join(drawn) + "</svg>\n"


def _box(box: Box) -> str:
    """A box with its title; without lines below it, the title is in the middle."""
    drawn = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="5" '
        f'fill="{FILLS[box.fill]}" stroke="{INK}"/>\n'
    )
    middle = box.x + box.width // 2
    first = box.y + 21 if box.lines else box.y + box.height // 2 + 5
    drawn += _text(middle, first, box.title, weight="bold", has_rim=False)
    for number, line in enumerate(box.lines, start=1):
        drawn += _text(middle, first + LINE_HEIGHT * number, line, has_rim=False)
    return drawn


def _arrow(arrow: Arrow) -> str:
    """An arrow with its text."""
    drawn = _line(arrow.points, head=True, both=arrow.both)
    return drawn + (_text(*arrow.at, arrow.text) if arrow.text else "")


def _line(
    points: Sequence[tuple[int, int]],
    *,
    head: bool = False,
    both: bool = False,
    dashed: bool = False,
) -> str:
    """A line through points, with heads at its end or both ends."""
    path = " ".join(f"{x},{y}" for x, y in points)
    marks = ' marker-end="url(#head)"' if head else ""
    marks += ' marker-start="url(#head)"' if both else ""
    marks += ' stroke-dasharray="4 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{INK}"{marks}/>\n'


def _text(
    x: int,
    y: int,
    text: str,
    *,
    anchor: str = "middle",
    weight: str = "normal",
    has_rim: bool = True,
) -> str:
    """A text at a place. `anchor` says which part of it is there, and `has_rim` draws a rim in the
    colour of the background around it."""
    place = f'x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}"'
    drawn = f"<text {place}>{escape(text)}</text>\n"
    if not has_rim:
        return drawn
    # The rim interrupts lines behind the text.
    rim = f'stroke="{PAPER}" stroke-width="4"'
    return f"<text {place} {rim}>{escape(text)}</text>\n{drawn}"
