"""What can go wrong with another broker. None of it is our fault; all of it may pass."""


class PeerError(Exception):
    """Another broker cannot be talked to; the connection, if there was one, is closed."""


class PeerUnreachable(PeerError):  # noqa: N818 - names for what happened
    """Nobody answers at its address."""


class PeerLost(PeerError):  # noqa: N818
    """The connection ended before the answer came."""


class PeerTimedOut(PeerError):  # noqa: N818
    """The answer did not come in time."""


class PeerRefused(PeerError):  # noqa: N818
    """It does not let us in, or did not prove that it belongs to this cluster."""
