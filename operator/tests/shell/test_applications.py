"""What applications are asked for by."""

import re

from chiplog_core.spark.application import APPLICATION_LABEL
from chiplog_operator.spark.applications import OF_NOBODY

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def test_the_api_server_takes_what_selects_nobody() -> None:
    """Else no launcher is known wherever one of the Spark operators' kinds is installed."""
    name, _, value = OF_NOBODY.partition("=")
    assert name == APPLICATION_LABEL
    assert value
    assert VALUE.fullmatch(value)
