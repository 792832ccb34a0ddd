"""The API server, as far as reading goes: objects by their path, over plain HTTP."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Manifest = Mapping[str, Any]
GROUP = "/apis/chiplog.dev/v1alpha1"


@contextmanager
def serving(
    clusters: Sequence[Manifest],
    topics: Sequence[Manifest],
    *,
    readable: str | None = None,
    token: str | None = None,
    secrets: Sequence[Manifest] = (),
) -> Iterator[str]:
    """Its address. Topics may be listed in all namespaces, or only in the `readable` one.

    With `token` it answers only those who have it.
    """
    answers = {_path(GROUP, "brokerclusters", one): one for one in clusters}
    answers |= {_path("/api/v1", "secrets", one): one for one in secrets}
    if readable is None:
        answers[f"{GROUP}/topics"] = _list(topics)
    for namespace in {one["metadata"]["namespace"] for one in topics}:
        own = [one for one in topics if one["metadata"]["namespace"] == namespace]
        if readable in (None, namespace):
            answers[f"{GROUP}/namespaces/{namespace}/topics"] = _list(own)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            path, query = asked.path, parse_qs(asked.query)
            code = 403 if path.endswith("/topics") else 404
            missing = {"kind": "Status", "code": code, "message": f"no {path}"}
            found = answers.get(path, missing)
            status = 200 if path in answers else code
            if status == 200 and "labelSelector" in query:
                name, _, value = query["labelSelector"][0].partition("=")
                kept = [one for one in found["items"] if _label(one, name) == value]
                found = {**found, "items": kept}
            if token is not None and self.headers["Authorization"] != f"Bearer {token}":
                found, status = {"kind": "Status", "code": 401, "message": "who?"}, 401
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def write_kubeconfig(
    path: Path,
    server: str,
    namespace: str,
    *,
    user: Mapping[str, Any] | None = None,
    context: str = "c",
) -> Path:
    path.write_text(
        json.dumps(
            {
                "current-context": context,
                "contexts": [
                    {
                        "name": context,
                        "context": {"cluster": context, "user": context, "namespace": namespace},
                    }
                ],
                "clusters": [{"name": context, "cluster": {"server": server}}],
                "users": [{"name": context, "user": dict(user or {})}],
            }
        )
    )
    return path


def _label(one: Manifest, name: str) -> object:
    return one["metadata"].get("labels", {}).get(name)


def _path(group: str, plural: str, one: Manifest) -> str:
    meta = one["metadata"]
    return f"{group}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"


def _list(items: Sequence[Manifest]) -> Manifest:
    return {"kind": "TopicList", "metadata": {"resourceVersion": "1"}, "items": list(items)}
