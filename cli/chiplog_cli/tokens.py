"""Tokens for logins: read from a file, or requested from an issuer."""

import ssl
import time
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chiplog_cli import bearer
from chiplog_cli.bearer import Token
from chiplog_cli.errors import CannotDo, NotLetIn
from chiplog_cli.jaas import SASL_JAAS_CONFIG
from chiplog_cli.security import TokenEndpoint, TokenFile, TokenLogin
from chiplog_cli.tls_config import TRUSTSTORE_LOCATION
from chiplog_cli.tls_context import tls_context
from chiplog_cli.token_config import ENDPOINT_URL

MAX_FILE_BYTES: Final = 64 * 1024
"""Chiplog's brokers take tokens of 16 KiB."""
_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

_of_issuers: Final[dict[TokenEndpoint, Token]] = {}
"""The last token of each issuer, which is used until most of its lifetime is over: commands may
make a connection for each broker and each request."""


def current_token(login: TokenLogin, timeout_s: float) -> Token:
    """A token for a login that begins now. A file is read each time. Raises `CannotDo`."""
    if isinstance(login.source, TokenFile):
        return _from_file(login.source)
    kept = _of_issuers.get(login.source)
    if kept is None or kept.renewed_s <= time.time():
        kept = _of_issuers[login.source] = _from_issuer(login.source, timeout_s)
    return kept


def _from_file(source: TokenFile) -> Token:
    """The token in a file. Raises `CannotDo`."""
    what = f"{ENDPOINT_URL}: {source.path}"
    path = Path(source.path)
    if path.is_fifo():
        raise CannotDo(f"{what}: it is a pipe, which can be read only once", "name a file")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CannotDo(f"{what}: {error.strerror or error}", "correct the path") from None
    try:
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"it is longer than {MAX_FILE_BYTES // 1024} KiB")
        return bearer.token_in(content.decode("ascii", "replace"), time.time())
    except ValueError as error:
        raise CannotDo(
            f"{what}: {error}", "write a valid token into the file, or correct the path"
        ) from None


def _from_issuer(endpoint: TokenEndpoint, timeout_s: float) -> Token:
    """A new token. Raises `CannotDo`."""
    from chiplog_cli.post import post  # noqa: PLC0415 - most logins need no HTTP

    parts = urlsplit(endpoint.url)
    # Without the query, which may have a secret.
    what = f"{ENDPOINT_URL}: {parts.scheme}://{parts.netloc}{parts.path}"
    body, headers = bearer.request_to(endpoint)
    try:
        tls = tls_context(endpoint.tls) if parts.scheme == "https" else None
        status, answer = post(parts, body, headers, tls, timeout_s)
    except NotLetIn as error:
        raise CannotDo(f"{what}: {error.message}", error.remedy) from None
    except ssl.SSLCertVerificationError as error:
        raise CannotDo(
            f"{what}: its certificate is refused: {error.verify_message}",
            f"trust its CA by option {TRUSTSTORE_LOCATION} of {SASL_JAAS_CONFIG}",
        ) from None
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
        raise CannotDo(
            f"{what}: {reason or error}", "check the URL, and whether the issuer can be reached"
        ) from None
    except ValueError as error:
        raise CannotDo(f"{what}: {error}", "check the URL") from None
    try:
        return bearer.token_in_answer(status, answer, time.time())
    except ValueError as error:
        raise CannotDo(f"{what}: {error}", _remedy(status)) from None


def _remedy(status: int) -> str:
    """What to do about an answer of this status without a usable token."""
    if status == HTTPStatus.OK:
        return (
            "check that the issuer gives signed tokens (JWT) for this client, and that this "
            "machine has the right time"
        )
    if status in _REFUSED:
        return "check the client id, its secret and the scope"
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "try again later"
    return "check the URL: redirections are not followed"
