"""The format of a line in a log: a JSON object with the event's name and its facts as fields."""

import json
import logging
from datetime import UTC, datetime

# The attributes that each log record has; all others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats each log record as a JSON object on one line. The entries of `extra` become
    fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON, with the attributes passed as `extra` as fields."""
        event = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)
