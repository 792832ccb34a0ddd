"""The types of configuration values, and their text form.

Kafka's configuration is text: on the wire, in `server.properties`, on command lines. Each type
parses that text as Kafka does (without surrounding blanks; booleans in upper or lower case) and
formats a value as DescribeConfigs shows it.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from chiplog_core.authorizer.acls import is_principal
from chiplog_core.ids import MAX_INT32, MAX_INT64

V = TypeVar("V")

ALL_REPLICAS: Final = "*"
_THROTTLED_REPLICA: Final = re.compile("[0-9]{1,10}:[0-9]{1,10}")


class ConfigType(Enum):
    """The type names of Kafka's DescribeConfigs."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"


class ValueType(Protocol[V]):
    """How one type of value is read and printed."""

    @property
    def type(self) -> ConfigType:
        """The type in DescribeConfigs."""

    def parse(self, text: str) -> V:
        """Parse the text. A `ValueError` says what was expected, like "a whole number"."""

    def format(self, value: V) -> str:
        """The text Kafka would print for `value`."""


@dataclass(frozen=True, slots=True)
class BooleanType:
    """`true` or `false`."""

    type: ConfigType = ConfigType.BOOLEAN

    def parse(self, text: str) -> bool:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
            case _:
                raise ValueError("true or false")

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A whole number of Java's `int` or `long`."""

    type: ConfigType
    largest: int
    """The largest value; the smallest is `-largest - 1`."""

    def parse(self, text: str) -> int:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        # int() alone would also read '1_000' and digits of other scripts.
        if not re.fullmatch("[+-]?[0-9]{1,19}", text.strip()):
            raise ValueError("a whole number")
        value = int(text)
        if not -self.largest - 1 <= value <= self.largest:
            raise ValueError(f"a whole number of at most {self.largest}")
        return value

    def format(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A number with a fraction."""

    type: ConfigType = ConfigType.DOUBLE

    def parse(self, text: str) -> float:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        try:
            value = float(text.replace("_", "?"))  # float() would accept '1_0' as 10; Java does not
        except ValueError:
            raise ValueError("a number") from None
        if not math.isfinite(value):
            raise ValueError("a finite number")
        return value

    def format(self, value: float) -> str:
        return repr(float(value))


@dataclass(frozen=True, slots=True)
class TextType:
    """Any text; where a key allows only some words, its choices say so."""

    type: ConfigType = ConfigType.STRING

    def parse(self, text: str) -> str:
        return text.strip()

    def format(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class ListType:
    """Words separated by commas."""

    type: ConfigType = ConfigType.LIST

    def parse(self, text: str) -> tuple[str, ...]:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        words = tuple(word.strip() for word in text.split(","))
        if not all(words):
            raise ValueError("words separated by commas, none of them empty")
        if len(set(words)) < len(words):
            raise ValueError("words separated by commas, each of them once")
        return words

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class ThrottledReplicasType:
    """Replicas as `partition:broker`, separated by commas; `*` for all replicas, and an empty text
    for none (KIP-73)."""

    type: ConfigType = ConfigType.LIST

    def parse(self, text: str) -> tuple[str, ...]:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        words = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        if words != (ALL_REPLICAS,) and not all(map(_THROTTLED_REPLICA.fullmatch, words)):
            raise ValueError(
                "replicas like 0:1,0:2 (partition:broker), * for all replicas, or an empty text"
            )
        return words

    def format(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class PrincipalsType:
    """Principals like `User:alice`, separated by semicolons; an empty text for none."""

    type: ConfigType = ConfigType.STRING

    def parse(self, text: str) -> tuple[str, ...]:
        """Parse the text. Raises `ValueError`, whose message says which texts are valid."""
        principals = tuple(word.strip() for word in text.split(";") if word.strip())
        if not all(map(is_principal, principals)):
            raise ValueError("principals like User:alice;User:bob, separated by semicolons")
        return principals

    def format(self, value: tuple[str, ...]) -> str:
        return ";".join(value)


BOOLEAN = BooleanType()
INT = IntegerType(ConfigType.INT, MAX_INT32)
LONG = IntegerType(ConfigType.LONG, MAX_INT64)
DOUBLE = DecimalType()
STRING = TextType()
LIST = ListType()
PRINCIPALS = PrincipalsType()
THROTTLED_REPLICAS = ThrottledReplicasType()
