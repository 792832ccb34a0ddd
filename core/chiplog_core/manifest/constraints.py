"""The constraints with which a field's declaration limits its values.

They are written in `Annotated`, after the type and the sentence that describes the field:

    partitions: Annotated[int, "Number of partitions.", Range(1, 2_000)]

Every text, list and map must have a bound (`shapes` refuses a declaration without one).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest number allowed."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Length:
    """How many characters a text may have."""

    maximum: int
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class Pattern:
    """The regular expression that the whole text must match.

    It is written without anchors, in the syntax that Python's `re` and Go's RE2 share.
    """

    regex: str
    meaning: str
    """What the text must be, in words, for messages: "32 lower-case hex digits"."""


@dataclass(frozen=True, slots=True)
class Items:
    """How many items a list may have, and how they may differ."""

    maximum: int
    minimum: int = 0
    unique: bool = False
    """Whether no two items may be equal."""

    ordered: bool = False
    """Whether the order of the items matters, so that a server-side apply must replace the whole
    list."""

    key: tuple[str, ...] = ()
    """The fields, by their names in the manifest, in which no two items may have the same
    values."""

    shared: bool = False
    """Whether other programs may add items of their own."""


@dataclass(frozen=True, slots=True)
class Entries:
    """How many entries a map may have."""

    maximum: int
