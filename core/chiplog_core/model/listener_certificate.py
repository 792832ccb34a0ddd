"""What a broker reports of the certificates at its listeners with TLS."""

import hashlib
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from chiplog_core.limits import MAX_FILE_PROBLEM_LENGTH, MAX_TRUSTED_CAS
from chiplog_core.manifest.constraints import Items, Length, Pattern
from chiplog_core.model.listener import ListenerName

Fingerprint = Annotated[
    str, Length(64, minimum=64), Pattern("[0-9a-f]{64}", "64 lower-case hex digits")
]
"""SHA-256 of a certificate in DER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerCertificate:
    """What the broker shows, and whom it trusts, at one listener: what it has in memory, which the
    files in its pod may be ahead of."""

    listener: Annotated[ListenerName, "Name of the listener."]
    fingerprint: Annotated[
        Fingerprint | None,
        "SHA-256 of the certificate that the broker shows, in hex; not set before it listens.",
    ] = None
    not_after: Annotated[datetime | None, "When the certificate expires."] = None
    trusted: Annotated[
        tuple[Fingerprint, ...],
        "SHA-256 of each CA certificate of which the broker lets in clients. Empty if clients of "
        "the listener need no certificate, and if there are too many.",
        Items(MAX_TRUSTED_CAS, unique=True),
    ] = ()
    trusted_digest: Annotated[
        Fingerprint | None,
        f"In place of trusted if there are more than {MAX_TRUSTED_CAS}: SHA-256 of the sorted "
        "fingerprints.",
    ] = None
    problem: Annotated[
        str,
        "Why the broker cannot use the mounted files. It still uses what it had.",
        Length(MAX_FILE_PROBLEM_LENGTH),
    ] = ""

    @property
    def checks_clients(self) -> bool:
        """Whether clients need a certificate."""
        return bool(self.trusted) or self.trusted_digest is not None

    def trusts(self, fingerprint: str, published: Set[str]) -> bool:
        """Whether the broker is known to trust this CA certificate, which is one of those that are
        published for it."""
        return fingerprint in self.trusted or self.trusted_digest == digest_of(published)

    def trusts_others(self, published: Set[str]) -> bool:
        """Whether the broker trusts a certificate that is not published for it, or may do so."""
        if self.trusted_digest is not None:
            return self.trusted_digest != digest_of(published)
        return not published >= set(self.trusted)


def digest_of(fingerprints: Iterable[str]) -> str:
    """The digest of a set of fingerprints."""
    return hashlib.sha256("\n".join(sorted(set(fingerprints))).encode()).hexdigest()


def as_reported(fingerprints: Iterable[str]) -> tuple[tuple[str, ...], str | None]:
    """The values of `trusted` and `trusted_digest` for these CA certificates."""
    found = tuple(sorted(set(fingerprints)))
    return (found, None) if len(found) <= MAX_TRUSTED_CAS else ((), digest_of(found))
