"""The real API server, spoken to in plain REST.

One place turns status codes into `ApiError`s, bounds what is read, and notices connections that
died without a word. Nothing is retried here: only the caller knows whether a write may be made
twice. (aiohttp itself repeats a GET once where a kept connection turns out to be closed.)

aiohttp is imported with the first request: brokers import this package at their start.
"""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    EventType,
    Forbidden,
    Gone,
    Invalid,
    Manifest,
    NotFound,
    ObjectList,
    Unavailable,
    WatchEvent,
)
from chiplog_kube.connection import Connection
from chiplog_kube.kinds import Kind
from chiplog_kube.lines import Lines, LineTooLong

if TYPE_CHECKING:
    import aiohttp

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
USER_AGENT = "chiplog"

ERRORS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long to wait, and how much to read."""

    connect_s: float = 5.0
    request_s: float = 15.0
    list_s: float = 60.0
    watch_s: int = 300
    """After this the server ends a watch, and the next one begins."""
    silence_s: float = 120.0
    """A watch without a word for so long is dead: the server sends a bookmark every minute."""
    page_items: int = 500
    answer_bytes: int = 64 * 1024 * 1024
    event_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of the server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = field(default="application/json", kw_only=True)
    timeout_s: float | None = field(default=None, kw_only=True)
    endless: bool = field(default=False, kw_only=True)

    def data(self) -> bytes | None:
        if self.body is None:
            return None
        return json.dumps(self.body, separators=(",", ":")).encode()


class HttpKubeApi:
    """`KubeApi` over HTTP. Close it, or use it as a context manager."""

    def __init__(self, connection: Connection, limits: Limits | None = None) -> None:
        self._connection = connection
        self._limits = limits or Limits()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ---- reading ----

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        """In pages, all of them of one moment."""
        query = {"limit": str(self._limits.page_items), **_selectors(labels, fields)}
        items: list[Manifest] = []
        while True:
            page = await self._call(
                _Request("GET", _path(kind, namespace), query, timeout_s=self._limits.list_s)
            )
            # The items of a list do not say what they are.
            about = {"apiVersion": kind.api_version, "kind": kind.kind}
            items.extend({**about, **item} for item in page.get("items") or [])
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return ObjectList(items, str(meta.get("resourceVersion", "")))
            query["continue"] = meta["continue"]

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return await self._call(_Request("GET", _path(kind, namespace, name)))

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(self._limits.watch_s),
            **_selectors(labels, fields),
        }
        lines = Lines(self._limits.event_bytes)
        request = _Request("GET", _path(kind, namespace), query, endless=True)
        async with self._answer(request) as answer:
            async for chunk in answer.content.iter_any():
                for line in lines.feed(chunk):
                    yield _event(line)

    # ---- writing ----

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest:
        path = _path(kind, _namespace(manifest))
        query = _by(field_manager, dry_run=dry_run)
        return await self._call(_Request("POST", path, query, manifest))

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        path = _path(kind, _namespace(manifest), _name(manifest), subresource)
        return await self._call(_Request("PUT", path, _by(field_manager), manifest))

    async def patch(  # noqa: PLR0913 - as in the port
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Mapping[str, object],
        *,
        field_manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        path = _path(kind, namespace, name, subresource)
        query = _by(field_manager, dry_run=dry_run)
        return await self._call(_Request("PATCH", path, query, patch, content_type=MERGE_PATCH))

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        path = _path(kind, _namespace(manifest), _name(manifest))
        query = {**_by(field_manager), "force": "true"}
        return await self._call(_Request("PATCH", path, query, manifest, content_type=APPLY_PATCH))

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        orphan: bool = False,
    ) -> None:
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if wanted := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = wanted
        if orphan:
            options["propagationPolicy"] = "Orphan"
        await self._call(_Request("DELETE", _path(kind, namespace, name), body=options))

    # ---- one request ----

    async def _call(self, request: _Request) -> Manifest:
        async with self._answer(request) as answer:
            return _json(await self._read(answer))

    @asynccontextmanager
    async def _answer(self, request: _Request) -> "AsyncIterator[aiohttp.ClientResponse]":
        """An answer of status 2xx, still to be read. Whatever else happens is an `ApiError`."""
        import aiohttp  # noqa: PLC0415

        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=None if request.endless else request.timeout_s or limits.request_s,
            sock_connect=limits.connect_s,
            sock_read=limits.silence_s if request.endless else None,
        )
        tells = {"Content-Type": request.content_type, **self._connection.credentials.headers()}
        what = f"{request.method} {request.path}"
        try:
            async with self._opened().request(
                request.method,
                self._connection.server + request.path,
                params=request.query,
                data=request.data(),
                headers=tells,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise _error(request.method, answer.status, await self._read(answer))
                yield answer
        except TimeoutError as error:
            why = "the watch fell silent" if request.endless else "no answer in time"
            raise Unavailable(f"{what}: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{what}: {type(error).__name__}: {error}") from error
        except LineTooLong as error:
            raise ApiError(f"{what}: {error}") from error

    def _opened(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp  # noqa: PLC0415

            context = self._connection.ssl_context()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    ssl=True if context is None else context,
                    socket_factory=_socket,
                ),
                headers={"Accept": "application/json", "User-Agent": USER_AGENT},
                # An object of 1.5 MiB is one line of a watch.
                read_bufsize=1024 * 1024,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _read(self, answer: "aiohttp.ClientResponse") -> bytes:
        parts, size = [], 0
        async for chunk in answer.content.iter_any():
            size += len(chunk)
            if size > self._limits.answer_bytes:
                raise ApiError(f"an answer of more than {self._limits.answer_bytes} bytes")
            parts.append(chunk)
        return b"".join(parts)


def _socket(address: Any) -> socket.socket:
    """A socket that notices within half a minute that the other side is gone without a word."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 25_000),
    ):
        if hasattr(socket, option):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    parts = [kind.prefix]
    if kind.namespaced and namespace:
        parts.append(f"namespaces/{namespace}")
    parts.append(kind.plural)
    parts += [part for part in (name, subresource) if part]
    return "/".join(parts)


def _namespace(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("namespace", ""))


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _selectors(labels: str, fields: str) -> dict[str, str]:
    named = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in named.items() if value}


def _by(field_manager: str, *, dry_run: bool = False) -> dict[str, str]:
    return {"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})}


def _json(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError as error:
        raise ApiError(f"an answer that is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ApiError("an answer that is no JSON object")
    return cast("dict[str, Any]", parsed)


def _error(method: str, status: int, body: bytes) -> ApiError:
    """What an answer other than 2xx means."""
    try:
        said = _json(body)
    except ApiError:
        said = {"message": body[:500].decode(errors="replace")}
    return _error_of(status, str(said.get("reason", "")), said.get("message") or "", method)


def _error_of(status: int, reason: str, message: object, method: str = "GET") -> ApiError:
    text = str(message) or f"{status} {reason}".strip()
    if status == 409 and (reason == "AlreadyExists" or (method == "POST" and not reason)):
        return AlreadyExists(text)
    if status >= 500:
        return Unavailable(text)
    return ERRORS.get(status, ApiError)(text)


def _event(line: bytes) -> WatchEvent:
    """One line of a watch. The server reports errors as events, too."""
    parsed = _json(line)
    found = parsed.get("object") or {}
    kind = parsed.get("type")
    if kind == "ERROR":
        raise _error_of(
            int(found.get("code") or 500), str(found.get("reason", "")), found.get("message") or ""
        )
    try:
        return WatchEvent(EventType(str(kind)), found)
    except ValueError as error:
        raise ApiError(f"a watch event of type {kind!r}") from error
