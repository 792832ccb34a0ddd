"""Which keys `sparkConf` takes, as a list: the one that the program goes by."""

from chiplog_core.validate.spark_conf import GIVEN, GIVEN_PREFIXES


def part() -> str:
    keys = sorted({*GIVEN, *(f"{prefix}…" for prefix in GIVEN_PREFIXES)})
    return ", ".join(f"`{key}`" for key in keys) + "\n"
