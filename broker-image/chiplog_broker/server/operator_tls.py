"""How the operator's inquiries are answered with TLS. Apart from the site itself, which imports
aiohttp: that takes long."""

from dataclasses import dataclass

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.listener_security import TlsSettings
from chiplog_broker.security.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class OperatorTls:
    """The certificate that the operator sees, and the one that it must show."""

    settings: TlsSettings
    files: TlsFiles
    clock: Clock

    @classmethod
    def of(cls, settings: TlsSettings, clock: Clock) -> "OperatorTls":
        """Read the files. Raises `CannotStart` if they cannot be used."""
        return cls(settings, TlsFiles(settings, clock), clock)
