"""The real API server, spoken to in plain REST: which request each verb is."""

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from chiplog_kube import managed_fields
from chiplog_kube.answers import event_of
from chiplog_kube.api import ApiError, Conflict, Invalid, Manifest, ObjectList, WatchEvent
from chiplog_kube.connection import Connection
from chiplog_kube.http_transport import HttpTransport, Limits, Request
from chiplog_kube.kinds import Kind
from chiplog_kube.lines import Lines
from chiplog_kube.request_meter import About, NoRequestMeter, RequestMeter

MERGE_PATCH = "application/merge-patch+json"
ANY_JSON = "application/json, application/jwk-set+json"
"""The API server refuses to send its keys to who does not accept the second one."""
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
OTHER_UID = "metadata.uid"
"""Part of the API server's error if an applied manifest has another uid than the object: it refuses
to change that field."""


class HttpKubeApi:
    """`KubeApi` over HTTP. Close it, or use it as a context manager."""

    def __init__(
        self,
        connection: Connection,
        limits: Limits | None = None,
        meter: RequestMeter | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._transport = HttpTransport(connection, self._limits, meter or NoRequestMeter())

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
        await self._transport.close()

    # ---- reading ----

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        """Read the list in pages, which all show the same moment."""
        query = {"limit": str(self._limits.page_items), **_selectors(labels, fields)}
        about_request, path = _about("list", kind), _path(kind, namespace)
        items: list[Manifest] = []
        while True:
            page = await self._transport.call(
                Request(about_request, "GET", path, query, timeout_s=self._limits.list_s)
            )
            # The items of a list have no apiVersion and kind.
            kind_fields = {"apiVersion": kind.api_version, "kind": kind.kind}
            items.extend({**kind_fields, **item} for item in page.get("items") or [])
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return ObjectList(items, str(meta.get("resourceVersion", "")))
            query["continue"] = meta["continue"]

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return await self._transport.call(
            Request(_about("get", kind), "GET", _path(kind, namespace, name))
        )

    async def document(self, path: str) -> Manifest:
        """A JSON object that is none of Kubernetes' kinds, like `/openid/v1/jwks`. Raises
        `ApiError`s."""
        about = About("get", path.lstrip("/"))
        return await self._transport.call(Request(about, "GET", path, accept=ANY_JSON))

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
        path = _path(kind, namespace)
        request = Request(_about("watch", kind), "GET", path, query, endless=True)
        async with self._transport.answer(request) as answer:
            async for chunk in answer.content.iter_any():
                for line in lines.feed(chunk):
                    yield event_of(line)

    # ---- writing ----

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest:
        path = _path(kind, _namespace(manifest))
        query = _write_query(field_manager, dry_run=dry_run)
        return await self._transport.call(
            Request(_about("create", kind), "POST", path, query, manifest)
        )

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        path = _path(kind, _namespace(manifest), _name(manifest), subresource)
        return await self._transport.call(
            Request(
                _about("update", kind, subresource),
                "PUT",
                path,
                _write_query(field_manager),
                manifest,
            )
        )

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
        query = _write_query(field_manager, dry_run=dry_run)
        about = _about("patch", kind, subresource)
        return await self._transport.call(
            Request(about, "PATCH", path, query, patch, content_type=MERGE_PATCH)
        )

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        path = _path(kind, _namespace(manifest), _name(manifest))
        query = {**_write_query(field_manager), "force": "true"}
        request = Request(
            _about("apply", kind), "PATCH", path, query, manifest, content_type=APPLY_PATCH
        )
        try:
            applied = await self._transport.call(request)
        except Invalid as error:
            if "uid" in manifest["metadata"] and OTHER_UID in str(error):
                raise Conflict(str(error)) from error
            raise
        return await self._as_applied(kind, applied, field_manager)

    async def apply_new(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        created = await self.create(kind, manifest, field_manager=field_manager)
        return await self._as_applied(kind, created, field_manager)

    async def _as_applied(self, kind: Kind, written: Manifest, manager: str) -> Manifest:
        """Record in a written object's managedFields that the manager applied its fields, and
        return the object. Otherwise a later apply could not remove fields of an object that was
        created by POST.

        If this fails, nothing is lost: the next apply does it.
        """
        meta = written["metadata"]
        entries = managed_fields.as_applied(meta.get("managedFields") or (), manager)
        if entries is None:
            return written
        version = meta["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "managedFields": entries}}
        try:
            return await self.patch(
                kind, _namespace(written), _name(written), patch, field_manager=manager
            )
        except ApiError:
            return written  # the object exists, as requested

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
        # Always set: by default, deleting a Job leaves its pods.
        options["propagationPolicy"] = "Orphan" if orphan else "Background"
        path = _path(kind, namespace, name)
        await self._transport.call(Request(_about("delete", kind), "DELETE", path, body=options))


def _about(verb: str, kind: Kind, subresource: str = "") -> About:
    """The verb and resource under which the metrics count a request."""
    return About(verb, f"{kind.plural}/{subresource}" if subresource else kind.plural)


def _path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL's path of a kind, of an object, or of its subresource. Without a namespace, that of
    the kind in all namespaces."""
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
    """The query parameters that select objects."""
    named = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in named.items() if value}


def _write_query(field_manager: str, *, dry_run: bool = False) -> dict[str, str]:
    """The query parameters of a write: its field manager, and whether nothing is stored."""
    return {"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})}
