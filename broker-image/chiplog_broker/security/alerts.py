"""Sends the alert that says why a TLS handshake failed.

uvloop and asyncio close the connection of a failed handshake without sending what OpenSSL has
written last: the alert. The client would see a lost connection and try again for ever, instead of
an error like "certificate required" that it can show.
"""

import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

send_alert: ContextVar[Callable[[bytes], object]] = ContextVar("send_alert")
"""Sends bytes to the client whose handshake begins in this context, past its transport."""


class AlertingObject(ssl.SSLObject):
    """The TLS of one connection."""

    outgoing: ssl.MemoryBIO
    send: Callable[[bytes], object]

    def do_handshake(self) -> None:
        """Continue the handshake. If that fails, the client gets OpenSSL's alert."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if alert := self.outgoing.read():
                self.send(alert)
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose failed handshakes end with an alert."""

    sslobject_class = AlertingObject

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **more: Any
    ) -> Any:
        """The TLS of a connection that begins in this context."""
        connection = super().wrap_bio(incoming, outgoing, *args, **more)
        assert isinstance(connection, AlertingObject), "the class attribute says so"
        connection.outgoing = outgoing
        connection.send = send_alert.get()
        return connection
