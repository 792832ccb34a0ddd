"""Errors of connections to other brokers. None is a fault of this broker; all may be temporary."""


class PeerError(Exception):
    """Another broker cannot be reached; the connection, if there was one, is closed."""


class PeerUnreachable(PeerError):  # noqa: N818 - names for what happened
    """No connection can be opened to the peer's address."""


class PeerLost(PeerError):  # noqa: N818
    """The connection ended before the answer came."""


class PeerTimedOut(PeerError):  # noqa: N818
    """The answer did not come in time."""


class PeerRefused(PeerError):  # noqa: N818
    """The peer refuses our login, or did not prove that it belongs to this cluster."""
