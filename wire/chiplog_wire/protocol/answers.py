"""The types of answers, for every API whose codec is kio's.

For example: `answers(ApiKey.LIST_OFFSETS).ListOffsetsResponse(...)`. Type checkers see only `Any`:
kio has its own integer types, and every number would have to be wrapped in one. Tests of the codec
and real clients check the answers.
"""

import importlib
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

from chiplog_wire.protocol.apis import APIS, ApiKey

NO_THROTTLE: Final = timedelta(0)


@cache
def answers(key: ApiKey) -> Any:
    """kio's module with the response types of the newest supported version of an API.

    It is imported when the first such request arrives: importing all of them would take longer than
    everything else at start-up.
    """
    version = APIS[key].max_version
    return importlib.import_module(f"kio.schema.{key.name.lower()}.v{version}.response")


def throttled(message: Any, throttle_ms: int) -> Any:
    """An answer with this throttle time, unless it has a longer one. Answers to logins have
    none."""
    if hasattr(message, "throttle_time_ms"):
        return message._replace(throttle_time_ms=max(message.throttle_time_ms, throttle_ms))
    if hasattr(message, "throttle_time"):
        longest = max(message.throttle_time, timedelta(milliseconds=throttle_ms))
        return replace(message, throttle_time=longest)
    return message


def milliseconds(duration: timedelta) -> int:
    """A duration in milliseconds."""
    return duration // timedelta(milliseconds=1)
