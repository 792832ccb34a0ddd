"""Masks for what differs from run to run, like times and ids, while outputs are compared.

The page's output and the printed one are both masked, so that any id fits any other. Several blanks
become one, because the width of a column depends on its content.
"""

import re
from typing import Final

MASKS: Final = (
    # Colours and cursor movements.
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    # Moments: RFC 3339, and as helm prints them.
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)", "<time>"),
    (r"(?<=^LAST DEPLOYED: ).*", "<time>"),
    # Ids: UUIDs, and Kafka's, 22 characters of which some are capitals.
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    (r"(?<![\w-])(?=[\w-]*[A-Z])[A-Za-z0-9_-]{22}(?![\w-])", "<id>"),
    # The tag of an image says what is in it.
    (r"\b(chiplog/[a-z]+):[\w.-]+", r"\1:<tag>"),
    # Pods of a Deployment: its name, a hash of their template, and five characters of their own.
    (r"-[0-9a-f]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<pod>"),
    # Addresses, with the port that Kubernetes chose.
    (r"\b\d{1,3}(\.\d{1,3}){3}:\d+\b", "<address>"),
    (r"\b\d{1,3}(\.\d{1,3}){3}\b", "<ip>"),
    (r"(?<=:)3[0-2]\d{3}(?=/TCP)", "<port>"),
    # How long something took or is there: 4.2 s, 3m12s.
    (r"\b\d+(\.\d+)? (ms|s|min)\b", "<duration>"),
    (r"(?<![\w.=-])(\d+(ms|[smhd]))+(?![\w.-])", "<duration>"),
    (r"[ \t]+", " "),
    (r" $", ""),
)
"""Patterns for one line each, in the order in which they are applied."""

_COMPILED: Final = tuple((re.compile(pattern), mask) for pattern, mask in MASKS)


def masked(text: str) -> list[str]:
    """The lines of a text with all masks applied, without empty lines at the end."""
    lines = [masked_line(line) for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def masked_line(line: str) -> str:
    for pattern, mask in _COMPILED:
        line = pattern.sub(mask, line)
    return line
