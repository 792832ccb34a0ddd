"""Signatures of HTTP requests from the operator to a broker, and of their answers.

Both have a common secret, the password of the cluster's internal listener. Everybody may connect to
a broker's health port, but only a client with the secret may read or change consumer groups there.

The signature of a request (HMAC-SHA256, RFC 2104) covers its method and path, the incarnation of
the process that it is for, the time when it was signed, and its body. So a request cannot be
changed, and cannot be repeated to another process or much later to the same one. Within `WINDOW_MS`
it can be repeated, so each request must have the same effect when it is received twice. The
signature of an answer covers the signature of its request, its status and its body, so it is valid
for no other request.

In the signed bytes each part is on its own line, and the body is last. No part may contain a line
break, so two different messages never have the same signed bytes.
"""

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chiplog_core.ids import INCARNATION_PATTERN, Incarnation

WINDOW_MS: Final = 30_000
"""The largest accepted sum of the difference between both clocks and the transit time."""

INCARNATION_HEADER: Final = "Chiplog-Incarnation"
TIME_HEADER: Final = "Chiplog-Time"
SIGNATURE_HEADER: Final = "Chiplog-Signature"

_REQUEST: Final = "chiplog-request-1"
_ANSWER: Final = "chiplog-answer-1"
"""The signed bytes begin with one of these, so that the signature of a request is never valid for
an answer, or the other way round."""

_TIME: Final = re.compile("[0-9]{1,15}", re.ASCII)
_SIGNATURE: Final = re.compile("[0-9a-f]{64}")
_INCARNATION: Final = re.compile(INCARNATION_PATTERN)


class Verdict(StrEnum):
    """Whether a receiver accepts a request, and the HTTP status if not."""

    ACCEPTED = "accepted"

    FORGED = "forged"
    """It is not signed, or not with a valid secret. 403."""

    UNTIMELY = "untimely"
    """It was signed too long ago, or by a clock that is too far ahead. 403."""

    FOR_ANOTHER = "for another process"
    """It is for an earlier process of this broker, or for another broker. 409."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The signed content of a request."""

    method: str
    path: str
    """The path as it was sent, without the host, including the query after a `?`."""
    incarnation: Incarnation
    """The process that the request is for."""
    time_ms: int
    """When the request was signed, in milliseconds since 1970."""
    body: bytes = b""


def request_headers(secret: str, message: Message) -> dict[str, str]:
    """The headers that sign a request with this message."""
    return {
        INCARNATION_HEADER: message.incarnation,
        TIME_HEADER: str(message.time_ms),
        SIGNATURE_HEADER: request_signature(secret, message),
    }


def request_signature(secret: str, message: Message) -> str:
    """The signature of a request, 64 hex digits. Raises `ValueError` if a part contains a line
    break."""
    parts = message.method, message.path, message.incarnation, str(message.time_ms)
    return _signed(secret, (_REQUEST, *parts), message.body)


def answer_signature(secret: str, request: str, status: int, body: bytes) -> str:
    """The signature of the answer to a request with the signature `request`, 64 hex digits."""
    return _signed(secret, (_ANSWER, request, str(status)), body)


def message_of(
    method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[Message, str] | None:
    """The message and signature of a request, from its headers; None if one is missing or wrong.

    `headers` must ignore the case of names.
    """
    incarnation = headers.get(INCARNATION_HEADER, "")
    time_ms = headers.get(TIME_HEADER, "")
    signature = headers.get(SIGNATURE_HEADER, "")
    if not (
        _INCARNATION.fullmatch(incarnation)
        and _TIME.fullmatch(time_ms)
        and _SIGNATURE.fullmatch(signature)
    ):
        return None
    message = Message(
        method=method,
        path=path,
        incarnation=Incarnation(incarnation),
        time_ms=int(time_ms),
        body=body,
    )
    return message, signature


def judge(
    secrets: Iterable[str],
    message: Message,
    signature: str,
    *,
    incarnation: Incarnation,
    now_ms: int,
) -> tuple[Verdict, str]:
    """The verdict on a request, and the secret with which it was signed ("" if with none).

    `secrets` are the valid ones: two for some time after a change. `incarnation` is the receiver's.
    The signature is checked first, so that a client without the secret gets the same verdict from
    every process.
    """
    for secret in secrets:
        if hmac.compare_digest(request_signature(secret, message), signature):
            break
    else:
        return Verdict.FORGED, ""
    if abs(now_ms - message.time_ms) > WINDOW_MS:
        return Verdict.UNTIMELY, secret
    if message.incarnation != incarnation:
        return Verdict.FOR_ANOTHER, secret
    return Verdict.ACCEPTED, secret


def is_answer(secret: str, request: str, status: int, body: bytes, signature: str) -> bool:
    """Whether an answer was signed for the request with the signature `request`."""
    if not _SIGNATURE.fullmatch(signature):
        return False
    return hmac.compare_digest(answer_signature(secret, request, status, body), signature)


def _signed(secret: str, parts: tuple[str, ...], body: bytes) -> str:
    """The signature of the parts and the body, 64 hex digits. Raises `ValueError` if the secret is
    empty or a part contains a line break."""
    if not secret:
        raise ValueError("an empty secret is known to everybody")
    if any("\n" in part for part in parts):
        raise ValueError("a signed part contains a line break")
    head = "".join(f"{part}\n" for part in parts)
    return hmac.digest(secret.encode(), head.encode() + body, "sha256").hex()
