"""A registry of one process: keeps in memory what is pushed to it, and serves it.

As much of the OCI distribution protocol as helm needs for push and pull, on 127.0.0.1.
https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
"""

import hashlib
import re
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

UPLOADS: Final = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/")
BLOB: Final = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})")
MANIFEST: Final = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>.+)")


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob and its media type."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        """As OCI writes it: sha256:…"""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"


class Registry:
    """An OCI registry in memory, which serves inside this context manager."""

    def __init__(self) -> None:
        self.blobs: dict[str, Blob] = {}
        """By digest."""
        self.manifests: dict[str, Blob] = {}
        """By repository and tag or digest, `charts/chiplog-cluster:0.1.0`."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.registry = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def put(self, name: str, reference: str, manifest: Blob) -> None:
        """Store a manifest of repository `name` under its reference (a tag) and its digest."""
        self.manifests[f"{name}:{reference}"] = manifest
        self.manifests[f"{name}:{manifest.digest}"] = manifest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    registry: Registry


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing: helm says what went wrong."""

    def do_HEAD(self) -> None:
        """Like GET; `_found` leaves the content out."""
        self.do_GET()

    def do_GET(self) -> None:
        """Serve a blob or a manifest; /v2/ tells clients that this is a registry."""
        if self.path == "/v2/":
            self._answer(HTTPStatus.OK)
        elif match := BLOB.fullmatch(self.path):
            self._found(self.server.registry.blobs.get(match["digest"]))
        elif match := MANIFEST.fullmatch(self.path):
            self._found(self.server.registry.manifests.get(":".join(match.groups())))
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Begin an upload: the client is to PUT its single part to the same path."""
        self.rfile.read(self._length)
        is_upload = UPLOADS.fullmatch(urlsplit(self.path).path)
        self._answer(HTTPStatus.ACCEPTED if is_upload else HTTPStatus.NOT_FOUND, self.path)

    def do_PUT(self) -> None:
        """Store a blob, whose digest must match its content, or a manifest."""
        content = self.rfile.read(self._length)
        where = urlsplit(self.path)
        one = Blob(self.headers["Content-Type"], content)
        if UPLOADS.fullmatch(where.path):
            if parse_qs(where.query)["digest"] != [one.digest]:
                self._answer(HTTPStatus.BAD_REQUEST)
                return
            self.server.registry.blobs[one.digest] = one
        elif match := MANIFEST.fullmatch(where.path):
            self.server.registry.put(match["name"], match["reference"], one)
        else:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self._answer(HTTPStatus.CREATED, where.path, one.digest)

    @property
    def _length(self) -> int:
        return int(self.headers.get("Content-Length", 0))

    def _found(self, one: Blob | None) -> None:
        """Answer with a blob or manifest; None is 404."""
        if one is None:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", one.media_type)
        self.send_header("Docker-Content-Digest", one.digest)
        self.send_header("Content-Length", str(len(one.content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(one.content)

    def _answer(self, status: HTTPStatus, location: str = "", digest: str = "") -> None:
        self.send_response(status)
        for name, value in (("Location", location), ("Docker-Content-Digest", digest)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
