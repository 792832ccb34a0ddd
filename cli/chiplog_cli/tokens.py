"""Tokens for logins: read from a file, or requested from an issuer."""

import ssl
import time
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
    try:
        with Path(source.path).open("rb") as file:
            content = file.read(bearer.MAX_ANSWER_BYTES)
    except OSError as error:
        raise CannotDo(f"{what}: {error.strerror or error}", "correct the path") from None
    try:
        return bearer.token_in(content.decode("ascii", "replace"), time.time())
    except ValueError as error:
        raise CannotDo(
            f"{what}: {error}", "write a valid token into the file, or correct the path"
        ) from None


def _from_issuer(endpoint: TokenEndpoint, timeout_s: float) -> Token:
    """A new token. Raises `CannotDo`."""
    what = f"{ENDPOINT_URL}: {endpoint.url}"
    try:
        status, answer = _answer(endpoint, timeout_s)
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
        raise CannotDo(f"{what}: {error}", "correct the URL") from None
    try:
        return bearer.token_in_answer(status, answer, time.time())
    except ValueError as error:
        raise CannotDo(
            f"{what}: {error}", "check the client id, its secret and the scope"
        ) from None


def _answer(endpoint: TokenEndpoint, timeout_s: float) -> tuple[int, bytes]:
    """The status and the body of the issuer's answer. Redirections are not followed: they would
    send the secret elsewhere. Raises `OSError`, `NotLetIn` and `ValueError`."""
    import http.client  # noqa: PLC0415 - most logins need none

    parts = urlsplit(endpoint.url)
    assert parts.hostname is not None, "the configuration was checked"
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=tls_context(endpoint.tls)
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body, headers = bearer.request_to(endpoint)
    try:
        connection.request("POST", target, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(bearer.MAX_ANSWER_BYTES)
    except http.client.HTTPException:
        raise ValueError("it does not answer as a web server does") from None
    finally:
        connection.close()
