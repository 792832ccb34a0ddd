"""The certificates of users, for the steps in which the clients CA is replaced."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from chiplog_core.certificates.authority import Issued
from chiplog_operator.caches import ClusterKey

_EVER = datetime.min.replace(tzinfo=UTC)
UNKNOWN: Final = Issued(issuer="", not_before=_EVER, not_after=_EVER)
"""In place of certificates that are not known: one of an unknown issuer, which may be needed."""


class IssuedToUsers:
    """What the clients CAs of all clusters issued to users. The loops that keep users say it, and
    until then a CA counts as needed."""

    def __init__(self, *, are_known: bool = False) -> None:
        """`are_known`: clusters of which nothing is said have no users with certificates."""
        self._issued: dict[ClusterKey, tuple[Issued, ...]] = {}
        self._otherwise = () if are_known else (UNKNOWN,)

    def of(self, key: ClusterKey) -> tuple[Issued, ...]:
        """The certificates of the cluster's users."""
        return self._issued.get(key, self._otherwise)

    def show(self, key: ClusterKey, issued: Iterable[Issued]) -> None:
        """Take over the certificates of the cluster's users."""
        self._issued[key] = tuple(issued)

    def forget(self, key: ClusterKey) -> None:
        """Nobody keeps the users of the cluster any more."""
        self._issued.pop(key, None)
