"""Tokens as they are in files and in the answers of issuers. Values only.

Nothing of a token, nor of an answer that may have one, gets into an error or a `repr`.
"""

import json
import re
from base64 import b64encode, urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from chiplog_cli.security import TokenEndpoint

RENEWED_AT: Final = 0.8
"""At which part of its lifetime a token is replaced, as by Kafka's clients."""

LATEST_S: Final = 2**40
"""In the year 36,812: librdkafka counts milliseconds in 64 bits."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.(?P<claims>[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*")
_ERROR: Final = re.compile(r"[A-Za-z_]{1,40}")
"""The error codes of RFC 6749, section 5.2, and those that extend it. It allows more characters,
but a text with them may repeat a secret."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and until when it is valid."""

    text: str = field(repr=False)
    expires_s: float
    """In seconds since the epoch."""
    renewed_s: float
    """From when on a new one is to be requested, in seconds since the epoch."""


def token_in(text: str, now_s: float) -> Token:
    """The token that is this text, apart from blanks around it. Raises `ValueError` if it is none
    or has expired."""
    token = _TOKEN.fullmatch(text.strip())
    if token is None:
        raise ValueError("there is no signed token (JWT)")
    claims = token["claims"]
    try:
        expires_s = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("the token does not say when it expires (exp)") from None
    if isinstance(expires_s, bool) or not isinstance(expires_s, int | float):
        raise ValueError("the time at which the token expires is no number")
    if not now_s < expires_s < LATEST_S:
        raise ValueError("the token has expired")
    return Token(token.group(), expires_s, now_s + RENEWED_AT * (expires_s - now_s))


def request_to(endpoint: TokenEndpoint) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the request for a token."""
    form = {"grant_type": "client_credentials"}
    if endpoint.scope:
        form["scope"] = endpoint.scope
    known_by = [endpoint.client_id, endpoint.client_secret]
    if endpoint.encodes_header:
        known_by = [quote_plus(one) for one in known_by]
    basic = b64encode(":".join(known_by).encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return urlencode(form).encode(), headers


def token_in_answer(status: int, body: bytes, now_s: float) -> Token:
    """The token in an issuer's answer. Raises `ValueError`."""
    answer = _object_in(body)
    if status != 200:
        code = answer.get("error")
        is_code = isinstance(code, str) and _ERROR.fullmatch(code) is not None
        raise ValueError(f"the answer is {status} {code}" if is_code else f"the answer is {status}")
    text = answer.get("access_token") or answer.get("id_token")
    if not isinstance(text, str):
        raise ValueError("there is no token in the answer")
    return token_in(text, now_s)


def _object_in(body: bytes) -> dict[str, Any]:
    """The JSON object in an answer; an empty one if there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
