"""A part of docs/verification.md: the keys that `sparkConf` accepts, from the program itself."""

from chiplog_core.validate.spark_conf import GIVEN, GIVEN_PREFIXES


def part() -> str:
    """The keys and prefixes of keys that `sparkConf` accepts."""
    keys = sorted({*GIVEN, *(f"{prefix}…" for prefix in GIVEN_PREFIXES)})
    return ", ".join(f"`{key}`" for key in keys) + "\n"
