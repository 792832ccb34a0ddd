"""The destination of a broker's log."""

import logging
import sys

from chiplog_core.telemetry.log_lines import JsonFormatter


def set_up(level: str) -> None:
    """Send everything of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
