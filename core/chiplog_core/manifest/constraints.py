"""The words in which a field's declaration bounds its value.

They stand in `Annotated` behind the type, after the sentence that describes the field:

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
    """The regular expression a whole text must match, and what it means in words.

    Written without anchors, in the syntax that Python's `re` and Go's RE2 share.
    """

    regex: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Items:
    """How many items a list may have, and what no two of them may share."""

    maximum: int
    minimum: int = 0
    unique: bool = False
    """No two items are equal."""

    ordered: bool = False
    """The order of the items means something, so nobody may merge two lists into one."""

    key: tuple[str, ...] = ()
    """No two items agree in these fields (their names as in the manifest)."""

    shared: bool = False
    """Other programs may add items of their own."""


@dataclass(frozen=True, slots=True)
class Entries:
    """How many entries a map may have."""

    maximum: int
