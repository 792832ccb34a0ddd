"""Documents at URLs, which are fetched as a whole.

aiohttp is imported with the first one: most brokers fetch none.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 5.0
ACCEPTED: Final = "application/json, application/jwk-set+json"
"""Kubernetes' API server sends keys only to who accepts the second one."""


class UrlDocument:
    """A document at an `https` URL, or an `http` one."""

    def __init__(self, url: str, truststore: Path | None) -> None:
        """`truststore` is a PEM file with the CAs of the server's certificate, or a directory of
        such files; None for those that the system trusts."""
        self._url = url
        self._truststore = truststore

    async def __call__(self, max_bytes: int, /) -> bytes:
        """Fetch the document, which must not have more than `max_bytes`. Redirections are not
        followed. Raises `OSError` or `ValueError`."""
        import aiohttp  # noqa: PLC0415

        # In another thread, since it reads files. The CAs may have changed.
        context = await asyncio.to_thread(context_of, self._truststore)
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                    headers={"Accept": ACCEPTED, "Accept-Encoding": "identity"},
                ) as session,
                session.get(self._url, ssl=context, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise ValueError(f"the status of the answer is {answer.status}")
                parts, size = [], 0
                async for part in answer.content.iter_any():
                    size += len(part)
                    if size > max_bytes:
                        raise ValueError(f"the answer has more than {max_bytes} bytes")
                    parts.append(part)
                return b"".join(parts)
        except aiohttp.ClientError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


def context_of(truststore: Path | None) -> ssl.SSLContext:
    """The context for connections to servers whose CAs are in these files. Raises `OSError` or
    `ValueError`."""
    if truststore is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files = [truststore]
    if truststore.is_dir():
        # A mounted volume also has entries with two dots, through which it is replaced.
        files = sorted(one for one in truststore.iterdir() if not one.name.startswith(".."))
    if not files:
        raise ValueError(f"{truststore} has no certificates")
    for file in files:
        context.load_verify_locations(file)
    return context
