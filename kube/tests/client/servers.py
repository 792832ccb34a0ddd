"""A TLS server whose name is not its address, a proxy before it, an identity provider."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that signs itself, as files of PEM."""

    path: Path
    key_path: Path

    @classmethod
    def made(cls, folder: Path, name: str) -> "Certificate":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        made = cls(folder / f"{name}.crt", folder / f"{name}.key")
        made.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        made.key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made

    def for_server(self, clients: "Certificate | None" = None) -> ssl.SSLContext:
        """`clients` is whom the server asks for a certificate, and believes."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path, self.key_path)
        if clients is not None:
            context.load_verify_locations(clients.path)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@asynccontextmanager
async def serving_tls(app: web.Application, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Its port on 127.0.0.1."""
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context, shutdown_timeout=0.1)
    try:
        assert server.port is not None
        yield server.port
    finally:
        await server.close()


@dataclass(slots=True)
class Proxy:
    """Does CONNECT, whatever the name, to one port of this machine."""

    port_behind: int
    asked: list[str] = field(default_factory=list)
    """The first line of each request."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.split(b"\r\n")[0].decode())
        behind = await asyncio.open_connection("127.0.0.1", self.port_behind)
        writer.write(b"HTTP/1.1 200 connected\r\n\r\n")
        with suppress(OSError):
            await asyncio.gather(_copy(reader, behind[1]), _copy(behind[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
