"""What the API server's answers mean: status codes as `ApiError`s, lines of a watch as events."""

import json
from collections.abc import Mapping
from typing import Any, cast

from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    EventType,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unavailable,
    WatchEvent,
)

ERRORS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in an answer's body. Raises `ApiError` for anything else."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ApiError(f"the answer is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ApiError("the answer is not a JSON object")
    return cast("dict[str, Any]", document)


def error_of(method: str, status: int, body: bytes) -> ApiError:
    """The error for an answer whose status is not 2xx. `method` is that of the request."""
    try:
        document = parsed(body)
    except ApiError:
        document = {"message": body[:500].decode(errors="replace")}
    return _meaning(status, str(document.get("reason", "")), document.get("message") or "", method)


def _meaning(status: int, reason: str, message: object, method: str = "GET") -> ApiError:
    """The error for a status, with the API server's message."""
    text = str(message) or f"{status} {reason}".strip()
    # Without a reason, a 409 to a POST can only mean that the name exists.
    if status == 409 and (reason == "AlreadyExists" or (method == "POST" and not reason)):
        return AlreadyExists(text)
    if status >= 500:
        return Unavailable(text)
    return ERRORS.get(status, ApiError)(text)


def event_of(line: bytes) -> WatchEvent:
    """The watch event in one line. Raises `ApiError` for an event that reports an error."""
    document = parsed(line)
    found = document.get("object") or {}
    kind = document.get("type")
    if kind == "ERROR":
        raise _meaning(
            int(found.get("code") or 500), str(found.get("reason", "")), found.get("message") or ""
        )
    try:
        return WatchEvent(EventType(str(kind)), found)
    except ValueError as error:
        raise ApiError(f"the watch sent an event of unknown type {kind!r}") from error
