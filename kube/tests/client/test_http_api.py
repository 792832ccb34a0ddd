"""The client against a real HTTP server: what each answer means."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chiplog_kube import kinds, managed_fields
from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    EventType,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unavailable,
)
from chiplog_kube.connection import TokenFile
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_kube.request_meter import NO_ANSWER

TOPIC: dict[str, Any] = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "Topic",
    "metadata": {"namespace": "shop", "name": "orders", "resourceVersion": "7"},
    "spec": {"partitions": 6},
}


def run(server: Any, scenario: Callable[[HttpKubeApi], Any], **given: Any) -> Any:
    async def within() -> Any:
        async with server.client(**given) as api:
            return await scenario(api)

    return asyncio.run(within())


async def watched(api: HttpKubeApi) -> list[tuple[EventType, str]]:
    return [
        (event.type, event.object["metadata"]["resourceVersion"])
        async for event in api.watch(kinds.TOPICS, resource_version="5")
    ]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (418, "", ApiError),
    ],
)
def test_each_status_is_one_error(
    server: Any, status: int, reason: str, expected: type[ApiError]
) -> None:
    server.then_status(status, reason)

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(ApiError, match="said so") as caught:
            await api.replace(kinds.TOPICS, TOPIC, field_manager="me")
        assert type(caught.value) is expected

    run(server, scenario)


def test_a_conflict_of_a_create_is_an_object_that_exists(server: Any) -> None:
    server.then_status(409, "AlreadyExists")

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(AlreadyExists):
            await api.create(kinds.TOPICS, TOPIC, field_manager="me")

    run(server, scenario)


def test_an_error_that_is_no_status_object_still_has_its_text(server: Any) -> None:
    async def answer(_: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        return web.Response(status=502, text="<html>the balancer</html>")

    server.then(answer)

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(Unavailable, match="the balancer"):
            await api.get(kinds.TOPICS, "shop", "orders")

    run(server, scenario)


def test_paths_queries_and_bodies(server: Any) -> None:
    server.then_json(TOPIC)

    async def scenario(api: HttpKubeApi) -> None:
        await api.get(kinds.NODES, "", "node-a")
        await api.create(kinds.TOPICS, TOPIC, field_manager="me", dry_run=True)
        await api.replace(kinds.TOPICS, TOPIC, field_manager="me", subresource="status")
        await api.patch(kinds.TOPICS, "shop", "orders", {"spec": {}}, field_manager="me")
        await api.apply(kinds.TOPICS, TOPIC, field_manager="me")
        await api.delete(kinds.PODS, "shop", "b-0", uid="u", resource_version="9", orphan=True)

    run(server, scenario)
    topics = "/apis/chiplog.dev/v1alpha1/namespaces/shop/topics"
    asked = [(one.method, one.path, dict(one.query)) for one in server.requests]
    assert asked == [
        ("GET", "/api/v1/nodes/node-a", {}),
        ("POST", topics, {"fieldManager": "me", "dryRun": "All"}),
        ("PUT", f"{topics}/orders/status", {"fieldManager": "me"}),
        ("PATCH", f"{topics}/orders", {"fieldManager": "me"}),
        ("PATCH", f"{topics}/orders", {"fieldManager": "me", "force": "true"}),
        ("DELETE", "/api/v1/namespaces/shop/pods/b-0", {}),
    ]
    types = [one.headers["Content-Type"] for one in server.requests]
    assert types[3:5] == ["application/merge-patch+json", "application/apply-patch+yaml"]
    assert server.bodies[5] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "9"},
        "propagationPolicy": "Orphan",
    }


def test_a_list_is_read_page_by_page_and_its_items_say_what_they_are(server: Any) -> None:
    def item(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}}

    first = {"metadata": {"resourceVersion": "40", "continue": "more"}}
    server.then_json({**first, "items": [item("a"), item("b")]})
    server.then_json({"metadata": {"resourceVersion": "40"}, "items": [item("c")]})
    listed = run(server, lambda api: api.list_(kinds.TOPICS, labels="x=y", fields="f=g"))
    assert [one["metadata"]["name"] for one in listed.items] == ["a", "b", "c"]
    assert {one["kind"] for one in listed.items} == {"Topic"}
    assert listed.resource_version == "40"
    assert [one.query.get("continue") for one in server.requests] == [None, "more"]
    assert {one.query["labelSelector"] for one in server.requests} == {"x=y"}
    # No resourceVersion: the API server then reads what is committed, not what it remembers.
    assert all("resourceVersion" not in one.query for one in server.requests)


def test_a_watch_gives_events_and_bookmarks_and_ends_with_the_server(server: Any) -> None:
    def event(kind: str, version: str) -> dict[str, Any]:
        return {"type": kind, "object": {"metadata": {"resourceVersion": version}}}

    half = b'{"type": "DELETED", "object": {"metadata"'
    rest = b': {"resourceVersion": "8"}}}\n'
    server.then_lines(event("ADDED", "6"), event("BOOKMARK", "7"), half, rest)
    assert run(server, watched) == [
        (EventType.ADDED, "6"),
        (EventType.BOOKMARK, "7"),
        (EventType.DELETED, "8"),
    ]
    query = server.requests[0].query
    assert query["resourceVersion"] == "5"
    assert query["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, Gone),
        ({"type": "ERROR", "object": {"code": 500, "message": "etcd"}}, Unavailable),
        ({"type": "RENAMED", "object": {}}, ApiError),
        (b"not json\n", ApiError),
        (b"[1]\n", ApiError),
        (b"x" * 20_000, ApiError),
    ],
)
def test_what_a_watch_may_not_say(server: Any, line: Any, expected: type[ApiError]) -> None:
    server.then_lines(line)
    limits = Limits(request_s=0.5, silence_s=0.5, event_bytes=10_000)

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(expected):
            await watched(api)

    run(server, scenario, limits=limits)


def test_an_old_version_is_gone_at_once(server: Any) -> None:
    server.then_status(410, "Expired")

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(Gone):
            await watched(api)

    run(server, scenario)


@pytest.mark.parametrize("ending", ["drop", "silence"])
def test_a_connection_that_dies_is_noticed(server: Any, ending: str) -> None:
    server.then_lines({"type": "BOOKMARK", "object": {"metadata": {}}}, ending=ending)

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(Unavailable):
            async for _ in api.watch(kinds.TOPICS, resource_version="5"):
                pass

    run(server, scenario)


def test_no_answer_in_time_is_unavailable(server: Any) -> None:
    server.then_lines(ending="silence")

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(Unavailable, match="no answer in time"):
            await api.get(kinds.TOPICS, "shop", "orders")

    run(server, scenario)


def test_no_server_is_unavailable(server: Any) -> None:
    server.then_json({})

    async def scenario(api: HttpKubeApi) -> None:
        pass

    async def afterwards() -> None:
        async with server.client() as api:
            address = api
        with pytest.raises(Unavailable):
            await address.get(kinds.TOPICS, "shop", "orders")
        await address.close()

    run(server, scenario)
    asyncio.run(afterwards())


def test_an_endless_answer_is_cut_off(server: Any) -> None:
    server.then_json({"items": ["x" * 5000]})

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(ApiError, match="more than 1000 bytes"):
            await api.get(kinds.TOPICS, "shop", "orders")

    run(server, scenario, limits=Limits(answer_bytes=1000))


def test_a_write_is_never_sent_twice(server: Any) -> None:
    async def drop(request: Any) -> Any:
        request.transport.abort()

    server.then(drop)

    async def scenario(api: HttpKubeApi) -> None:
        with pytest.raises(Unavailable):
            await api.create(kinds.TOPICS, TOPIC, field_manager="me")
        with pytest.raises(Unavailable):
            await api.patch(kinds.TOPICS, "shop", "orders", {}, field_manager="me")

    run(server, scenario)
    assert len(server.requests) == 2


def test_a_token_is_read_again_when_its_file_changes(server: Any, tmp_path: Path) -> None:
    server.then_json(TOPIC)
    file = tmp_path / "token"
    file.write_text("first\n")

    async def scenario(api: HttpKubeApi) -> None:
        await api.get(kinds.TOPICS, "shop", "orders")
        other = tmp_path / "other"
        other.write_text("second")
        other.replace(file)  # as the kubelet does it
        await api.get(kinds.TOPICS, "shop", "orders")
        file.unlink()
        await api.get(kinds.TOPICS, "shop", "orders")

    run(server, scenario, credentials=TokenFile(file))
    said = [one.headers["Authorization"] for one in server.requests]
    assert said == ["Bearer first", "Bearer second", "Bearer second"]


def test_every_request_is_counted_once_with_what_came_of_it(server: Any) -> None:
    """Also those whose answer breaks off, or never begins."""
    page = {"items": [], "metadata": {"continue": "more", "resourceVersion": "1"}}
    server.then_json(page).then_json({"items": [], "metadata": {"resourceVersion": "1"}})
    server.then_lines(b'{"type": "BOOKM', ending="drop")
    server.then_status(409, "Conflict").then_json(TOPIC).then_json({})

    async def never(_: Any) -> Any:
        await asyncio.sleep(3)

    server.then(never)

    async def scenario(api: HttpKubeApi) -> None:
        await api.list_(kinds.TOPICS)
        with pytest.raises(ApiError):
            await watched(api)
        with pytest.raises(Conflict):
            await api.replace(kinds.TOPICS, TOPIC, field_manager="me")
        await api.patch(
            kinds.TOPICS, "shop", "orders", {}, field_manager="me", subresource="status"
        )
        await api.delete(kinds.PODS, "shop", "demo-broker-1-0")
        with pytest.raises(Unavailable):
            await api.create(kinds.TOPICS, TOPIC, field_manager="me")

    run(server, scenario)
    assert server.counted == [
        ("list", "topics", "200"),
        ("list", "topics", "200"),
        ("watch", "topics", "200"),
        ("update", "topics", "409"),
        ("patch", "topics/status", "200"),
        ("delete", "pods", "200"),
        ("create", "topics", NO_ANSWER),
    ]


def test_an_apply_by_uid_that_meets_another_object_is_a_conflict(server: Any) -> None:
    server.then_status(422, "Invalid", "metadata.uid: Invalid value: field is immutable")

    async def scenario(api: HttpKubeApi) -> None:
        named = {**TOPIC, "metadata": {**TOPIC["metadata"], "uid": "gone"}}
        with pytest.raises(Conflict):
            await api.apply(kinds.TOPICS, named, field_manager="me")
        with pytest.raises(Invalid):
            await api.apply(kinds.TOPICS, TOPIC, field_manager="me")

    run(server, scenario)


def test_what_was_created_is_owned_as_what_is_applied(server: Any) -> None:
    written = {"manager": "me", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}
    of_another = {**written, "manager": "another"}
    status = {**written, "subresource": "status"}
    meta = {**TOPIC["metadata"], "resourceVersion": "7"}
    made = {**TOPIC, "metadata": {**meta, "managedFields": [of_another, written, status]}}
    server.then_json(made)
    server.then_json(TOPIC)

    async def scenario(api: HttpKubeApi) -> None:
        assert await api.apply_new(kinds.TOPICS, TOPIC, field_manager="me") == TOPIC

    run(server, scenario)
    assert [one.method for one in server.requests] == ["POST", "PATCH"]
    assert server.bodies[1] == {
        "metadata": {
            "resourceVersion": "7",
            "managedFields": [of_another, status, {**written, "operation": "Apply"}],
        }
    }


def test_what_was_created_and_applied_is_owned_together() -> None:
    def entry(operation: str, *fields: str) -> dict[str, Any]:
        data: dict[str, Any] = {"f:data": {f"f:{one}": {} for one in fields}}
        return {"manager": "me", "operation": operation, "fieldsV1": data}

    both = managed_fields.as_applied([entry("Apply", "a", "b"), entry("Update", "b", "c")], "me")
    assert both == [entry("Apply", "a", "b", "c")]
    assert managed_fields.as_applied([entry("Apply", "a")], "me") is None
    assert managed_fields.as_applied([entry("Update", "a")], "you") is None


def test_a_document_of_another_type_is_accepted(server: Any) -> None:
    """The API server answers 406 to who does not accept keys as what they are."""
    server.then_json({"keys": []})

    async def scenario(api: HttpKubeApi) -> Any:
        return await api.document("/openid/v1/jwks")

    assert run(server, scenario) == {"keys": []}
    (request,) = server.requests
    assert request.path == "/openid/v1/jwks"
    assert "application/jwk-set+json" in request.headers.getall("Accept")[0]
    assert len(request.headers.getall("Accept")) == 1
    assert server.counted == [("get", "openid/v1/jwks", "200")]
