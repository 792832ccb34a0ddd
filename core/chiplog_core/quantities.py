"""Kubernetes quantities, like `100Gi` or `500m`, which are compared exactly and never as floats.

A volume may grow and never shrink, so two sizes must be compared exactly as the API server does.
"""

import re
from fractions import Fraction
from typing import NewType

Quantity = NewType("Quantity", str)

_NUMBER = r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"
_EXPONENT = "[eE][+-]?[0-9]{1,2}"
_SUFFIX = "[KMGTPE]i|[numkMGTPE]"

QUANTITY_PATTERN = f"({_NUMBER})({_EXPONENT}|{_SUFFIX})?"
QUANTITY_MEANING = "a Kubernetes quantity, like 100Gi or 500m"
MAX_QUANTITY_LENGTH = 44

_FACTORS = {
    "": Fraction(1),
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", start=1)},
}


def quantity_value(text: Quantity) -> Fraction:
    """The value of a quantity in its base unit, like bytes for a size. Raises `ValueError`."""
    match = re.fullmatch(QUANTITY_PATTERN, text)
    if match is None:
        raise ValueError(f"{text!r} is not {QUANTITY_MEANING}")
    number, suffix = match[1], match[2] or ""
    if suffix in _FACTORS:
        return Fraction(number) * _FACTORS[suffix]
    return Fraction(number) * Fraction(10) ** int(suffix[1:])


def mebibytes(size_bytes: int) -> int:
    """A size in MiB, rounded up."""
    return -(-size_bytes // 2**20)
