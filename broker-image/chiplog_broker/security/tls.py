"""The certificate that a process shows, and the CAs that it trusts, from files that may change.

How an `Acceptor` uses it:

    files = TlsFiles(listener.tls, clock)  # raises CannotStart
    context = files.current().context  # for each accepted connection

Nothing has to be started or stopped. The files are looked at when a client connects, once a second
at most. Each change makes a new `ssl.SSLContext`: a CA cannot be removed from one that exists.
Connections keep the context that they were accepted with. A `Dialer` does the same with
`client_context`.
"""

import hashlib
import logging
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.file_in_memory import in_memory
from chiplog_broker.security.alerts import AlertingContext
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.security.x509 import distinguished_name, not_after_s

logger = logging.getLogger(__name__)

# The files are read at most once in this time, however many clients connect.
REREAD_AFTER_S: Final = 1.0
# Cipher suites of TLS 1.2. All have forward secrecy and are AEAD, as those of TLS 1.3 are.
CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
OPTIONS: Final = (
    ssl.OP_NO_COMPRESSION
    | ssl.OP_NO_RENEGOTIATION
    | ssl.OP_NO_TICKET
    | ssl.OP_CIPHER_SERVER_PREFERENCE
)
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
# OpenSSL keeps sessions of TLS 1.2 also without tickets: up to 20,480, with certificates of clients
# about 15 KB each (measured). Python cannot switch that off. So a context is replaced when it has
# this many; connections may keep the old one, which must not hold more than they do themselves.
MAX_CACHED_SESSIONS: Final = 32
# A message has at most this many names of a certificate.
MAX_NAMED: Final = 3

WITHOUT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
"""OpenSSL's reasons for a client that begins with something else than TLS."""
NewContext = Callable[[TlsSettings], ssl.SSLContext]
"""Makes a context without certificates: `server_context` or `client_context`."""
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Generation:
    """One content of the files."""

    context: ssl.SSLContext
    """For connections that are accepted now."""
    fingerprint: str
    """SHA-256 of the certificate in DER, as 64 lower-case hexadecimal digits."""
    not_after_s: int
    """When the certificate expires, in seconds since 1970."""
    trusted: tuple[str, ...]
    """The fingerprints of the CAs of clients, sorted."""


class TlsFiles:
    """The files of one listener, or of the connections to other brokers."""

    def __init__(
        self, settings: TlsSettings, clock: Clock, new_context: NewContext | None = None
    ) -> None:
        """Read the files; contexts are those of a server by default. Raises `CannotStart` if they
        cannot be used."""
        self._settings = settings
        self._new_context = new_context or server_context
        self._clock = clock
        self._read_s = clock.monotonic_s()
        self._failures = 0
        """How many readings in a row have failed."""
        self._why_failed = ""
        try:
            self._content = read_content(settings)
            self._current = generation(settings, self._content, self._new_context)
        except (OSError, ValueError) as problem:
            raise CannotStart(_remedy(settings, reason(problem))) from problem

    def current(self) -> Generation:
        """The generation for a connection that is accepted now."""
        now_s = self._clock.monotonic_s()
        is_full = self._current.context.session_stats()["number"] >= MAX_CACHED_SESSIONS
        if now_s - self._read_s >= REREAD_AFTER_S or is_full:
            self._read_s = now_s
            self._reread(is_full=is_full)
        return self._current

    @property
    def problem(self) -> str:
        """Why the files cannot be used now; empty if they can, and after the first failure: the
        files may just be being replaced."""
        return self._why_failed if self._failures > 1 else ""

    def _reread(self, *, is_full: bool) -> None:
        """Read the files again, and use them if they are complete and have changed, or if the
        present context has too many sessions (`is_full`)."""
        try:
            content = read_content(self._settings)
            if content == self._content and not is_full:
                self._failures = 0
                return
            found = generation(self._settings, content, self._new_context)
        except (OSError, ValueError) as problem:
            # The files in memory stay in use: a Secret that is written in two steps, or a broken
            # mount, must not keep clients out.
            self._why_failed = reason(problem)
            if not self._failures:
                logger.warning("certificate_unreadable", extra={"reason": self._why_failed})
            self._failures += 1
            self._trust_only(is_full=is_full)
            return
        self._failures = 0
        self._use(content, found)

    def _trust_only(self, *, is_full: bool) -> None:
        """Keep the certificate in memory, but trust the CAs that the files have now: one that was
        removed must not be trusted because something else is broken."""
        content = self._content
        if self._settings.truststore is not None:
            with suppress(OSError, ValueError):
                trusted = truststore_file(self._settings.truststore).read_bytes()
                if certificates_of(trusted):
                    content = replace(content, trusted=trusted)
        try:
            if content == self._content and not is_full:
                return
            with in_memory(content.chain) as chain, in_memory(content.key) as key:
                found = context_of(self._settings, content, (chain, key), self._new_context)
        except (OSError, ValueError):
            return  # it was logged
        self._use(content, found)

    def _use(self, content: "Content", found: Generation) -> None:
        """Use a new generation from now on."""
        if content != self._content:
            logger.info(
                "certificate_changed",
                extra={"fingerprint": found.fingerprint, "trusted": list(found.trusted)},
            )
        self._content, self._current = content, found


@dataclass(frozen=True, slots=True)
class Content:
    """The content of the files in PEM."""

    chain: bytes
    """The certificate, and those of CAs between it and the root."""
    key: bytes
    """The file with the private key: the same as `chain` where one file has both."""
    trusted: bytes


def read_content(settings: TlsSettings) -> Content:
    """Read the files. Raises `OSError`."""
    chain_file, key_file = keystore_files(settings.keystore)
    trusted = settings.truststore
    return Content(
        chain_file.read_bytes(),
        key_file.read_bytes(),
        b"" if trusted is None else truststore_file(trusted).read_bytes(),
    )


def keystore_files(location: Path) -> tuple[Path, Path]:
    """The files of the certificate chain and of the key: a Secret's, or one file with both."""
    if location.is_dir():
        return location / "tls.crt", location / "tls.key"
    return location, location


def truststore_file(location: Path) -> Path:
    """The file of CAs."""
    return location / "ca.crt" if location.is_dir() else location


def generation(settings: TlsSettings, content: Content, new_context: NewContext) -> Generation:
    """Create a context of what the files have. Raises `OSError` or `ValueError` if that cannot be
    used, for example if the key does not belong to the certificate."""
    found = context_of(settings, content, keystore_files(settings.keystore), new_context)
    if read_content(settings) != content:
        raise ValueError("the files have changed while they were read")
    return found


def context_of(
    settings: TlsSettings,
    content: Content,
    keystore: tuple[str | Path, str | Path],
    new_context: NewContext,
) -> Generation:
    """As `generation`, with the certificate chain and the key from these two files, which have the
    same content."""
    certificates, trusted = certificates_of(content.chain), certificates_of(content.trusted)
    if not certificates:
        raise ValueError(f"{settings.keystore} has no certificate")
    context = new_context(settings)
    # An empty password: OpenSSL would ask for that of an encrypted key on the terminal.
    context.load_cert_chain(*keystore, password="")
    if settings.truststore is not None:
        if not trusted:
            raise ValueError(f"{settings.truststore} has no certificate")
        context.load_verify_locations(cadata=b"".join(trusted))
    return Generation(
        context,
        fingerprint(certificates[0]),
        not_after_s(certificates[0]),
        tuple(sorted(map(fingerprint, trusted))),
    )


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context of a server without certificates.

    Sessions are not resumed by tickets: they would let a client in whose CA was removed.
    """
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.num_tickets = 0
    context.verify_mode = VERIFY_MODES[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context without certificates of a client that verifies the server and its host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Allow only the versions of the settings, and safe ciphers."""
    versions = [VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.set_ciphers(CIPHERS)
    context.options |= OPTIONS
    # A CA between may be trusted without its root, as in Java's truststores.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def certificates_of(pem: bytes) -> Sequence[bytes]:
    """All certificates of a PEM file, in DER. Raises `ValueError`."""
    return [ssl.PEM_cert_to_DER_cert(one.decode("ascii")) for one in _CERTIFICATE.findall(pem)]


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def principal_of(connection: ssl.SSLObject | None, now_s: float) -> str:
    """The principal of a client after the handshake: the subject of its certificate, which OpenSSL
    has verified, or `ANONYMOUS` without one. `now_s` is the time since 1970. Raises `ValueError`
    for a certificate that has expired since: OpenSSL does not verify it when a session is resumed.
    """
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    if now_s > not_after_s(certificate):
        raise ValueError("the certificate of a resumed session has expired")
    return f"User:{distinguished_name(certificate)}"


def check_names(connection: ssl.SSLObject | None, settings: TlsSettings) -> None:
    """Raise `ValueError` if the client of a complete handshake is not admitted by the names in its
    certificate."""
    if settings.is_admitted is None:
        return
    certificate: Mapping[str, Any] = (connection and connection.getpeercert()) or {}
    found = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    if not settings.is_admitted(found):
        names = ", ".join(found[:MAX_NAMED]) or "no name"
        raise ValueError(f"the certificate, with {names}, is not of a process that may connect")


def reason(problem: Exception) -> str:
    """Why a file cannot be used."""
    if isinstance(problem, ssl.SSLError) and problem.reason in WITHOUT_TLS:
        return "the client does not use TLS, but this listener does: set security.protocol=SSL"
    if isinstance(problem, ssl.SSLError) and problem.reason:
        return problem.reason.replace("_", " ").lower()
    return str(problem)


def _remedy(settings: TlsSettings, problem: str) -> str:
    """The message for files that cannot be used."""
    text = (
        f"{settings.keystore_key} {settings.keystore} cannot be used "
        f"({problem}): it must be a PEM file with a key and its certificate chain, or a directory "
        "with tls.crt and tls.key"
    )
    if settings.truststore is None:
        return text
    return (
        f"{text}; {settings.truststore_key} {settings.truststore} must be a PEM file with the CAs "
        "of clients, or a directory with ca.crt"
    )
