"""A line of the log is JSON: an event, its facts, and why it failed."""

import json
import logging

from chiplog_core.telemetry.log_lines import JsonFormatter


def test_a_log_line_is_an_event_with_facts() -> None:
    record = logging.makeLogRecord({"msg": "in_charge", "levelno": 20, "identity": "op-1"})
    written = json.loads(JsonFormatter().format(record))
    assert (written["event"], written["identity"]) == ("in_charge", "op-1")
    assert set(written) == {"time", "level", "event", "identity"}


def test_a_log_line_holds_the_exception() -> None:
    error = ValueError("no such thing")
    record = logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, error, None)})
    assert json.loads(JsonFormatter().format(record))["exception"] == "ValueError: no such thing"
