"""Tokens for librdkafka, which asks for a new one when most of the last one's lifetime is over."""

import time
from typing import TypeAlias

from chiplog_cli.errors import CannotDo
from chiplog_cli.security import TokenLogin
from chiplog_cli.tokens import current_token

Answer: TypeAlias = tuple[str, float, str, dict[str, str]]
"""A token, when it expires in seconds since the epoch, a name that is not used, and extensions."""


class TokenRenewal:
    """The `oauth_cb` of one client. librdkafka calls it in a thread of its own, also while no
    command waits for the client, and logs in again with what it returns (KIP-368)."""

    def __init__(self, login: TokenLogin, timeout_s: float) -> None:
        """Raises `CannotDo` if there is no token: librdkafka would wait ten seconds for one, and
        not say why."""
        self._login = login
        self._timeout_s = timeout_s
        self._last = current_token(login, timeout_s)
        self._problem: CannotDo | None = None

    def __call__(self, _config: str) -> Answer:
        """A token. While none can be had, it is the last one until it expires: an issuer may be
        away for a moment. Raises `CannotDo`, after which librdkafka asks again in ten seconds."""
        try:
            self._last, self._problem = current_token(self._login, self._timeout_s), None
        except CannotDo as error:
            if self._last.expires_s <= time.time():
                self._problem = error
                raise
        return self._last.text, self._last.expires_s, "", dict(self._login.extensions)

    def check(self) -> None:
        """Raises `CannotDo` with the reason if there is no valid token. librdkafka would try to
        log in for ever with the one that has expired."""
        if self._problem is not None:
            raise self._problem
