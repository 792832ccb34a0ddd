"""The keys that `sparkConf` takes, from the list that its validation uses."""

from chiplog_core.validate.spark_conf import GIVEN, GIVEN_PREFIXES


def part() -> str:
    """The allowed keys, and prefixes of keys with `…` after them, sorted, in one line."""
    keys = sorted({*GIVEN, *(f"{prefix}…" for prefix in GIVEN_PREFIXES)})
    return ", ".join(f"`{key}`" for key in keys) + "\n"
