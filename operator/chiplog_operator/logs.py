"""Where the operator's log goes, and who may write to it."""

import logging
import sys

from chiplog_core.telemetry.log_lines import JsonFormatter

QUIET = ("kopf", "aiohttp", "asyncio")
"""Libraries that log a line for every event. Only their warnings and errors are logged."""


def set_up(level: str) -> None:
    """Send everything of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
