"""TLS in the simulated network: handshakes in three small messages, and nothing is encrypted.

A server's `TlsDoor` and `TlsFiles` are the real ones. Each handshake uses the `ssl.SSLContext` that
they give for it: the CAs that this context has, and whether it asks for certificates, decide. Only
OpenSSL's part is done here: to find the issuer of a certificate among these CAs, to check its
signature and both times of validity, and to resume a session of the same context without all that.
OpenSSL itself would use the machine's clock, which knows nothing of simulated time.

    server -> client: its certificate; client -> server: its own, or none; server -> client: done
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from chiplog_broker.security.tls import certificates_of
from chiplog_broker.server.tls_accepting import TlsDoor
from e2e.sim.network import Transport

NO_CERTIFICATE: Final = b"no certificate"
DONE: Final = b"done"
ALERT: Final = b"alert: "
"""Begins the server's last message if it refuses the client; then comes the reason."""


class Session(NamedTuple):
    """A session that a client has saved."""

    context: ssl.SSLContext
    certificate: bytes
    """The client's own, which the server has verified then."""


@dataclass(slots=True, kw_only=True)
class ClientTls:
    """What a client uses in its handshakes with one server; certificates are in DER."""

    trusted: tuple[bytes, ...]
    """The CAs of servers."""
    certificate: bytes = b""
    """Its own; empty for none."""
    host: str
    """The name of the server, which must be in its certificate."""
    now: Callable[[], datetime]
    session: Session | None = None
    """The last one, if the client resumes it. It gets a new one by each handshake."""
    was_resumed: bool = False
    """After a handshake: whether the server has resumed the session."""
    asked_s: float = field(default=0.0, init=False)
    """When the client has sent its certificate."""

    async def opened(self, here: Transport) -> None:
        """The client's side of a handshake. Raises `OSError` if it fails."""
        client = _Client(self)
        here.set_protocol(client)
        client.connection_made(here)
        try:
            await client.done
        except BaseException:
            here.abort()
            raise

    def accepted(self, there: Transport) -> "AcceptedSocket":
        return AcceptedSocket(there, self)

    def answer_to(self, certificate: bytes) -> bytes:
        """The client's message after the server's certificate. Raises `ssl.SSLError`."""
        why = why_refused(certificate, self.trusted, self.now())
        if not why and self.host not in hosts_of(certificate):
            why = f"the certificate is not of {self.host}"
        if why:
            raise ssl.SSLError(1, why)
        self.asked_s = asyncio.get_running_loop().time()
        return self.certificate or NO_CERTIFICATE


class _Client(asyncio.Protocol):
    """The client's end of a connection until its handshake is complete."""

    def __init__(self, tls: ClientTls) -> None:
        self._tls = tls
        self._transport: Transport
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.done.done():
            return
        if data == DONE:
            self.done.set_result(None)
            return
        if data.startswith(ALERT):
            self.done.set_exception(ssl.SSLError(1, data.removeprefix(ALERT).decode()))
            return
        try:
            self._transport.write(self._tls.answer_to(data))
        except ssl.SSLError as refused:
            self.done.set_exception(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the server refuses the handshake"))


class _Server(asyncio.Protocol):
    """The server's end of a connection until its handshake is complete."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("the client has left"))


class SimDoor(TlsDoor):
    """A door of simulated connections: it gets them from the network, not from sockets."""

    def open(self, descriptors: Iterable[int]) -> None:
        network = cast("Any", asyncio.get_running_loop()).network
        for port in descriptors:
            server = network.server(port)
            server.begin, server.is_serving = self._begin_of, True

    def _begin_of(self, accepted: "AcceptedSocket", host: str, port: int) -> None:
        accepted.server_certificate = certificates_of(self.files._content.chain)[0]  # noqa: SLF001
        accepted.now_ms = self._clock.now_ms
        self._begin(cast("Any", accepted), host, port)


class AcceptedSocket:
    """The server's end of a new connection, as a door uses a socket."""

    def __init__(self, transport: Transport, tls: ClientTls) -> None:
        self._transport = transport
        self._tls = tls
        self._handshake: _Server
        self.server_certificate = b""
        self.now_ms: Callable[[], int]

    def fileno(self) -> int:
        """No limit of descriptors refuses it."""
        return -1

    def close(self) -> None:
        """Refuse it, before its handshake."""
        self._transport.set_protocol(_Server())
        self._transport.abort()

    def shutdown(self, _how: int) -> None:
        """End its handshake."""
        self._transport.abort()

    async def shake_hands(
        self, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext, limit_s: float
    ) -> tuple[Transport, asyncio.BaseProtocol]:
        """The server's side, as `loop.connect_accepted_socket` has it. Raises `OSError`."""
        transport = self._transport
        handshake = _Server()
        transport.set_protocol(handshake)
        try:
            transport.write(self.server_certificate)
            async with asyncio.timeout(limit_s):
                answer = await handshake.answer
            certificate = b"" if answer == NO_CERTIFICATE else answer
            if not self._resumes(context, certificate):
                now = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
                self._check(context, certificate, now)
        except ssl.SSLError as refused:
            transport.write(ALERT + str(refused).encode())
            transport.close()
            raise
        except BaseException:
            transport.abort()
            raise
        self._tls.session = Session(context, certificate)
        transport.secure(sslcontext=context, ssl_object=_Secured(certificate))
        transport.write(DONE)
        protocol = factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def _resumes(self, context: ssl.SSLContext, certificate: bytes) -> bool:
        """Whether the client resumes a session of this context. OpenSSL verifies nothing then."""
        saved = self._tls.session
        self._tls.was_resumed = (
            saved is not None and saved.context is context and saved.certificate == certificate
        )
        return self._tls.was_resumed

    @staticmethod
    def _check(context: ssl.SSLContext, certificate: bytes, now: datetime) -> None:
        """Verify a client's certificate. Raises `ssl.SSLError`."""
        if context.verify_mode is ssl.CERT_NONE:
            return
        if not certificate:
            if context.verify_mode is ssl.CERT_REQUIRED:
                raise ssl.SSLError(1, "peer did not return a certificate")
            return
        why = why_refused(certificate, context.get_ca_certs(binary_form=True), now)
        if why:
            raise ssl.SSLError(1, why)


class _Secured:
    """The part of an `ssl.SSLObject` that a broker reads."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form, "brokers read certificates themselves"
        return self._certificate or None


def why_refused(certificate: bytes, authorities: Iterable[bytes], now: datetime) -> str:
    """Why a certificate is not accepted now by those who trust these CAs; empty if it is."""
    issuers = [one for one in authorities if is_issued_by(certificate, one)]
    if not issuers:
        return "unable to get local issuer certificate"
    if not any(is_valid(one, now) for one in issuers):
        return "the certificate of the issuer is not valid now"
    return "" if is_valid(certificate, now) else "the certificate is not valid now"


def is_valid(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate is valid at this time, no matter who issued it."""
    read = read_certificate(certificate)
    return read.not_valid_before_utc <= now <= read.not_valid_after_utc


@lru_cache(maxsize=4096)
def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the key of a CA has signed the certificate."""
    try:
        read_certificate(certificate).verify_directly_issued_by(read_certificate(authority))
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def read_certificate(certificate: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(certificate)


@lru_cache(maxsize=1024)
def hosts_of(certificate: bytes) -> frozenset[str]:
    """The DNS names that a certificate is valid for."""
    names = read_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return frozenset(names.value.get_values_for_type(x509.DNSName))
