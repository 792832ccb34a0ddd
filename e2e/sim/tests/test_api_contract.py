"""What the simulated API server does, the real one does too: the same tests for both.

The simulated half runs everywhere, the real one in the lane `cluster`. What is not here, nobody
may take the simulator's word for.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from chiplog_kube.api import (
    AlreadyExists,
    Conflict,
    EventType,
    Gone,
    Invalid,
    KubeApi,
    Manifest,
    NotFound,
    Unavailable,
    WatchEvent,
)
from chiplog_kube.kinds import CONFIG_MAPS, LEASES
from e2e.sim.tests.subjects import NAMESPACE, THINGS, Real, Scenario, Simulated, Subject
from e2e.sim.tests.subjects import install as install_definition
from e2e.sim.tests.subjects import remove as remove_definition

ME = "contract"
REAL = pytest.param("real", marks=[pytest.mark.cluster, pytest.mark.timeout(300)])


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> Iterator[Real]:
    target = request.getfixturevalue("target")
    kubectl = install_definition(target)
    yield Real(target)
    remove_definition(kubectl)


@pytest.fixture(params=["simulated", REAL])
def server(request: pytest.FixtureRequest) -> Subject:
    if request.param == "simulated":
        return Simulated()
    found: Real = request.getfixturevalue("real")
    return found


def contract(scenario: Scenario) -> Any:
    """A test of both servers, from what is asked of one."""

    def test(server: Subject) -> None:
        server.run(scenario)

    test.__doc__ = inspect.getdoc(scenario)
    return test


def thing(name: str, spec: dict[str, object] | None = None, **meta: object) -> Manifest:
    return {
        "apiVersion": THINGS.api_version,
        "kind": THINGS.kind,
        "metadata": {"namespace": NAMESPACE, "name": name, **meta},
        "spec": spec if spec is not None else {"size": 1},
    }


async def made(api: KubeApi, name: str, **more: Any) -> Manifest:
    return await api.create(THINGS, thing(name, **more), field_manager=ME)


async def got(api: KubeApi, name: str) -> Manifest:
    return await api.get(THINGS, NAMESPACE, name)


async def patched(api: KubeApi, name: str, patch: dict[str, object], subresource: str = "") -> Any:
    return await api.patch(
        THINGS, NAMESPACE, name, patch, field_manager=ME, subresource=subresource
    )


async def replaced(api: KubeApi, manifest: Manifest, subresource: str = "") -> Manifest:
    return await api.replace(THINGS, manifest, field_manager=ME, subresource=subresource)


def version(manifest: Manifest) -> str:
    return str(manifest["metadata"]["resourceVersion"])


def generation(manifest: Manifest) -> int:
    return int(manifest["metadata"]["generation"])


# -- making, finding, deleting


@contract
async def test_create(api: KubeApi) -> None:
    one = await made(api, "create")
    assert one["metadata"]["uid"]
    assert version(one)
    assert generation(one) == 1
    assert one["metadata"]["creationTimestamp"].endswith("Z")
    assert await got(api, "create") == one
    with pytest.raises(AlreadyExists):
        await made(api, "create", spec={"size": 2})
    assert await got(api, "create") == one


@contract
async def test_create_with_a_version(api: KubeApi) -> None:
    """The server calls this an error of its own (status 500)."""
    with pytest.raises(Unavailable):
        await made(api, "create-with-version", resourceVersion="1")


@contract
async def test_create_with_a_status(api: KubeApi) -> None:
    """A new object has none, whichever client creates it."""
    given = {**thing("create-with-status"), "status": {"phase": "Ready"}}
    assert "status" not in await api.create(THINGS, given, field_manager=ME)


@contract
async def test_a_dry_run_keeps_nothing(api: KubeApi) -> None:
    await api.create(THINGS, thing("dry"), field_manager=ME, dry_run=True)
    with pytest.raises(NotFound):
        await got(api, "dry")
    one = await made(api, "dry")
    patch = {"spec": {"size": 2}}
    asked = await api.patch(THINGS, NAMESPACE, "dry", patch, field_manager=ME, dry_run=True)
    assert asked["spec"] == {"size": 2}
    assert await got(api, "dry") == one


@contract
async def test_what_is_not_there(api: KubeApi) -> None:
    with pytest.raises(NotFound):
        await got(api, "absent")
    with pytest.raises(NotFound):
        await patched(api, "absent", {"spec": {"size": 2}})
    with pytest.raises(NotFound):
        await api.delete(THINGS, NAMESPACE, "absent")
    with pytest.raises(NotFound):
        await replaced(api, {**thing("absent", resourceVersion="1")})


@contract
async def test_a_name_given_again(api: KubeApi) -> None:
    """It is another object: another uid, and a version above all of the old one's."""
    old = await made(api, "anew")
    await api.delete(THINGS, NAMESPACE, "anew")
    new = await made(api, "anew")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert int(version(new)) > int(version(old))


# -- compare and set


@contract
async def test_replace_wants_the_version_it_saw(api: KubeApi) -> None:
    first = await made(api, "replace")
    second = await replaced(api, {**first, "spec": {"size": 2}})
    assert int(version(second)) > int(version(first))
    with pytest.raises(Conflict):
        await replaced(api, {**first, "spec": {"size": 3}})
    with pytest.raises(Invalid):
        await replaced(api, thing("replace", {"size": 3}))
    assert (await got(api, "replace"))["spec"] == {"size": 2}


@contract
async def test_replace_wants_the_same_object(api: KubeApi) -> None:
    one = await made(api, "replace-uid")
    other = {**one, "metadata": {**one["metadata"], "uid": "4711"}, "spec": {"size": 2}}
    with pytest.raises(Conflict):
        await replaced(api, other)


@contract
async def test_a_patch_may_name_the_version_it_saw(api: KubeApi) -> None:
    first = await made(api, "patch")
    seen = {"resourceVersion": version(first)}
    second = await patched(api, "patch", {"metadata": seen, "spec": {"size": 2}})
    assert int(version(second)) > int(version(first))
    with pytest.raises(Conflict):
        await patched(api, "patch", {"metadata": seen, "spec": {"size": 3}})
    third = await patched(api, "patch", {"spec": {"size": 4}})
    assert third["spec"] == {"size": 4}


@contract
async def test_a_patch_may_name_the_object_it_saw(api: KubeApi) -> None:
    one = await made(api, "patch-uid")
    await patched(api, "patch-uid", {"metadata": {"uid": one["metadata"]["uid"]}, "spec": {"a": 1}})
    with pytest.raises(Invalid):
        await patched(api, "patch-uid", {"metadata": {"uid": "4711"}, "spec": {"a": 2}})
    old = {"uid": "4711", "resourceVersion": version(one)}
    with pytest.raises(Conflict):
        await patched(api, "patch-uid", {"metadata": old, "spec": {"a": 2}})


@contract
async def test_a_patch_of_the_status_compares_the_version_only(api: KubeApi) -> None:
    """A client that means one object and no later one of its name has to give the version."""
    one = await made(api, "status-uid")
    patch: dict[str, object] = {"metadata": {"uid": "4711"}, "status": {"phase": "Ready"}}
    after = await patched(api, "status-uid", patch, "status")
    assert after["metadata"]["uid"] == one["metadata"]["uid"]
    assert after["status"] == {"phase": "Ready"}
    old = {"uid": "4711", "resourceVersion": version(one)}
    with pytest.raises(Conflict):
        await patched(api, "status-uid", {"metadata": old, "status": {"phase": "Old"}}, "status")


@contract
async def test_delete_with_preconditions(api: KubeApi) -> None:
    first = await made(api, "delete")
    second = await patched(api, "delete", {"spec": {"size": 2}})
    uid = second["metadata"]["uid"]
    with pytest.raises(Conflict):
        await api.delete(THINGS, NAMESPACE, "delete", uid="4711")
    with pytest.raises(Conflict):
        await api.delete(THINGS, NAMESPACE, "delete", uid=uid, resource_version=version(first))
    assert await got(api, "delete") == second
    await api.delete(THINGS, NAMESPACE, "delete", uid=uid, resource_version=version(second))
    with pytest.raises(NotFound):
        await got(api, "delete")


@contract
async def test_a_write_that_changes_nothing_is_none(api: KubeApi) -> None:
    one = await made(api, "nothing")
    assert version(await patched(api, "nothing", {"spec": {"size": 1}})) == version(one)
    assert version(await replaced(api, one)) == version(one)


@contract
async def test_leases(api: KubeApi) -> None:
    """Two who saw the same Lease do not both get it."""
    spec = {"holderIdentity": "a", "renewTime": "2026-01-01T12:00:00.000000Z"}
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": NAMESPACE, "name": "lease"},
        "spec": {**spec, "leaseDurationSeconds": 6, "leaseTransitions": 0},
    }
    seen = await api.create(LEASES, lease, field_manager=ME)
    assert seen["spec"]["renewTime"] == spec["renewTime"]
    taken = {**seen, "spec": {**seen["spec"], "holderIdentity": "b"}}
    await api.replace(LEASES, taken, field_manager=ME)
    with pytest.raises(Conflict):
        await api.replace(LEASES, taken, field_manager=ME)
    with pytest.raises(AlreadyExists):
        await api.create(LEASES, lease, field_manager=ME)


@contract
async def test_a_lease_that_is_gone_is_made_by_who_replaces_it(api: KubeApi) -> None:
    """Though a version was named; not where the one that was there is named by its uid."""
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": NAMESPACE, "name": "lease-gone"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 6},
    }
    seen = await api.create(LEASES, lease, field_manager=ME)
    await api.delete(LEASES, NAMESPACE, "lease-gone")
    with pytest.raises(Conflict):
        await api.replace(LEASES, seen, field_manager=ME)
    named = {"namespace": NAMESPACE, "name": "lease-gone", "resourceVersion": version(seen)}
    recreated = await api.replace(LEASES, {**seen, "metadata": named}, field_manager=ME)
    assert recreated["metadata"]["uid"] != seen["metadata"]["uid"]
    assert "generation" not in recreated["metadata"]
    with pytest.raises(Conflict):
        await api.replace(LEASES, {**seen, "metadata": named}, field_manager=ME)


# -- what a write changes


@contract
async def test_a_merge_patch(api: KubeApi) -> None:
    """RFC 7396: null removes, lists are replaced, what is not named stays."""
    await made(api, "merge", spec={"a": 1, "b": {"c": 2, "d": 3}, "list": [1, 2]})
    patch: dict[str, object] = {"spec": {"a": None, "b": {"c": 4}, "list": [3], "none": None}}
    after = await patched(api, "merge", patch)
    assert after["spec"] == {"b": {"c": 4, "d": 3}, "list": [3]}


@contract
async def test_generations_count_changes_of_the_spec(api: KubeApi) -> None:
    await made(api, "generation", finalizers=["chiplog.dev/test"])
    assert generation(await patched(api, "generation", {"metadata": {"labels": {"a": "1"}}})) == 1
    assert generation(await patched(api, "generation", {"status": {"a": 1}}, "status")) == 1
    assert generation(await patched(api, "generation", {"spec": {"size": 2}})) == 2
    await api.delete(THINGS, NAMESPACE, "generation")
    assert generation(await got(api, "generation")) == 3
    await patched(api, "generation", {"metadata": {"finalizers": None}})


@contract
async def test_the_status_is_written_by_itself(api: KubeApi) -> None:
    await made(api, "status")
    patch: dict[str, object] = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"size": 2},
        "status": {"phase": "Ready"},
    }
    after = await patched(api, "status", patch, "status")
    assert after["spec"] == {"size": 1}
    assert after["status"] == {"phase": "Ready"}
    assert "labels" not in after["metadata"]
    after = await patched(api, "status", {"spec": {"size": 2}, "status": {"phase": "Broken"}})
    assert after["spec"] == {"size": 2}
    assert after["status"] == {"phase": "Ready"}
    after = await replaced(api, {**after, "status": {"phase": "Gone"}}, "status")
    assert after["status"] == {"phase": "Gone"}


@contract
async def test_server_side_apply(api: KubeApi) -> None:
    """An apply creates and changes fields, and removes those that the same manager applied before
    and now does not."""
    first = {**thing("apply", {"a": 1, "b": {"c": 2}}), "metadata": thing("apply")["metadata"]}
    one = await api.apply(THINGS, first, field_manager=ME)
    assert one["spec"] == {"a": 1, "b": {"c": 2}}
    await api.patch(THINGS, NAMESPACE, "apply", {"spec": {"e": 5}}, field_manager="another")
    again = await api.apply(THINGS, first, field_manager=ME)
    assert again["spec"] == {"a": 1, "b": {"c": 2}, "e": 5}
    same = await api.apply(THINGS, first, field_manager=ME)
    assert version(same) == version(again)
    less = await api.apply(THINGS, thing("apply", {"b": {"d": 3}}), field_manager=ME)
    assert less["spec"] == {"b": {"d": 3}, "e": 5}


@contract
async def test_an_apply_of_what_is_new(api: KubeApi) -> None:
    """It makes, never changes, and what it made is taken away as what was applied is."""
    first = thing("new", {"a": 1, "b": {"c": 2}})
    one = await api.apply_new(THINGS, first, field_manager=ME)
    assert one["spec"] == {"a": 1, "b": {"c": 2}}
    with pytest.raises(AlreadyExists):
        await api.apply_new(THINGS, thing("new", {"a": 2}), field_manager=ME)
    assert (await got(api, "new"))["spec"] == {"a": 1, "b": {"c": 2}}
    less = await api.apply(THINGS, thing("new", {"b": {"d": 3}}), field_manager=ME)
    assert less["spec"] == {"b": {"d": 3}}


@contract
async def test_what_was_created_becomes_what_is_applied(api: KubeApi) -> None:
    """Where the process ended between creating and owning: the next apply but one takes away."""
    await api.create(THINGS, thing("half", {"a": 1, "b": {"c": 2}}), field_manager=ME)
    await api.apply_new(THINGS, thing("half-not", {"a": 1}), field_manager=ME)
    await api.apply(THINGS, thing("half", {"a": 1}), field_manager=ME)
    less = await api.apply(THINGS, thing("half", {"a": 1}), field_manager=ME)
    assert less["spec"] in ({"a": 1}, {"a": 1, "b": {"c": 2}})


@contract
async def test_an_apply_to_one_object_reaches_no_other(api: KubeApi) -> None:
    one = await api.apply_new(THINGS, thing("this", {"a": 1}), field_manager=ME)

    def of(uid: str, size: int) -> Manifest:
        given = thing("this", {"a": size})
        return {**given, "metadata": {**given["metadata"], "uid": uid}}

    same = await api.apply(THINGS, of(one["metadata"]["uid"], 2), field_manager=ME)
    assert same["spec"] == {"a": 2}
    await api.delete(THINGS, NAMESPACE, "this")
    with pytest.raises(Conflict):
        await api.apply(THINGS, of(one["metadata"]["uid"], 3), field_manager=ME)
    with pytest.raises(NotFound):
        await got(api, "this")
    await api.create(THINGS, thing("this", {"a": 9}), field_manager="another")
    with pytest.raises(Conflict):
        await api.apply(THINGS, of(one["metadata"]["uid"], 3), field_manager=ME)
    assert (await got(api, "this"))["spec"] == {"a": 9}


# -- finalizers


@contract
async def test_a_finalizer_holds_an_object(api: KubeApi) -> None:
    await made(api, "held", finalizers=["chiplog.dev/test"])
    await api.delete(THINGS, NAMESPACE, "held")
    ending = await got(api, "held")
    when = ending["metadata"]["deletionTimestamp"]
    assert when.endswith("Z")
    await api.delete(THINGS, NAMESPACE, "held")
    with pytest.raises(AlreadyExists):
        await made(api, "held")
    kept = await patched(api, "held", {"metadata": {"deletionTimestamp": None}})
    assert kept["metadata"]["deletionTimestamp"] == when
    both = ["chiplog.dev/test", "chiplog.dev/more"]
    with pytest.raises(Invalid):
        await patched(api, "held", {"metadata": {"finalizers": both}})
    await patched(api, "held", {"metadata": {"finalizers": []}})
    with pytest.raises(NotFound):
        await got(api, "held")


# -- lists and watches


@contract
async def test_lists(api: KubeApi) -> None:
    """More than a page of the real one; by label, by name."""
    for number in range(5):
        await made(api, f"list-{number}", labels={"test": "list", "odd": str(number % 2)})
    found = await api.list_(THINGS, NAMESPACE, labels="test=list")
    assert [one["metadata"]["name"] for one in found.items] == [f"list-{n}" for n in range(5)]
    assert {one["kind"] for one in found.items} == {"Thing"}
    odd = await api.list_(THINGS, NAMESPACE, labels="test=list,odd=1")
    assert len(odd.items) == 2
    assert (await api.list_(THINGS, NAMESPACE, labels="test=list,absent")).items == []
    named = await api.list_(THINGS, NAMESPACE, fields="metadata.name=list-3")
    assert [one["metadata"]["name"] for one in named.items] == ["list-3"]
    assert int(found.resource_version) >= max(int(version(one)) for one in found.items)
    everywhere = await api.list_(THINGS, labels="test=list")
    assert len(everywhere.items) == 5


async def changes(watch: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    """The next of them, without bookmarks."""
    found: list[tuple[str, str]] = []
    async for event in watch:
        if event.type is not EventType.BOOKMARK:
            found.append((event.type.value, event.object["metadata"]["name"]))
        if len(found) == count:
            break
    closing = getattr(watch, "aclose", None)
    if closing is not None:
        await closing()
    return found


@contract
async def test_a_watch_goes_on_where_a_list_ended(api: KubeApi) -> None:
    await made(api, "watch-0", labels={"test": "watch"})
    before = await api.list_(THINGS, NAMESPACE, labels="test=watch")
    await made(api, "watch-1", labels={"test": "watch"})
    await patched(api, "watch-0", {"spec": {"size": 2}})
    await patched(api, "watch-0", {"spec": {"size": 2}})  # changes nothing, so there is no event
    await api.delete(THINGS, NAMESPACE, "watch-1")
    after = before.resource_version
    watch = api.watch(THINGS, NAMESPACE, resource_version=after, labels="test=watch")
    assert await changes(watch, 3) == [
        ("ADDED", "watch-1"),
        ("MODIFIED", "watch-0"),
        ("DELETED", "watch-1"),
    ]


@contract
async def test_a_watch_by_label(api: KubeApi) -> None:
    """What enters the selection was added, what leaves it was deleted."""
    before = await api.list_(THINGS, NAMESPACE)
    await made(api, "label")
    for label in ("label", "other", "label"):
        await patched(api, "label", {"metadata": {"labels": {"test": label}}})
    await patched(api, "label", {"spec": {"size": 2}})
    await patched(api, "label", {"metadata": {"labels": {"test": None}}})
    after = before.resource_version
    watch = api.watch(THINGS, NAMESPACE, resource_version=after, labels="test=label")
    found = [kind for kind, _ in await changes(watch, 5)]
    assert found == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


@contract
async def test_a_watch_by_name(api: KubeApi) -> None:
    before = await api.list_(THINGS, NAMESPACE)
    await made(api, "field-1")
    await made(api, "field-2")
    after = before.resource_version
    named = "metadata.name=field-2"
    watch = api.watch(THINGS, NAMESPACE, resource_version=after, fields=named)
    assert await changes(watch, 1) == [("ADDED", "field-2")]


@contract
async def test_a_watch_by_name_ends_with_its_object_only(api: KubeApi) -> None:
    before = await api.list_(THINGS, NAMESPACE)
    for name in ("end-1", "end-2"):
        await made(api, name)
        await api.delete(THINGS, NAMESPACE, name)
    after = before.resource_version
    watch = api.watch(THINGS, NAMESPACE, resource_version=after, fields="metadata.name=end-2")
    assert await changes(watch, 2) == [("ADDED", "end-2"), ("DELETED", "end-2")]


@contract
async def test_an_object_that_leaves_a_selection_comes_as_it_was_in_it(api: KubeApi) -> None:
    one = await made(api, "leaves", labels={"test": "leaves"})
    left = await patched(
        api, "leaves", {"metadata": {"labels": {"test": None}}, "spec": {"size": 2}}
    )
    watch = api.watch(THINGS, NAMESPACE, resource_version=version(one), labels="test=leaves")
    async for event in watch:
        assert event.type is EventType.DELETED
        assert event.object["spec"] == one["spec"]
        assert event.object["metadata"]["labels"] == {"test": "leaves"}
        assert version(event.object) == version(left)
        break
    with suppress(AttributeError):
        await watch.aclose()  # type: ignore[attr-defined]


@contract
async def test_a_held_object_ends_in_two_steps(api: KubeApi) -> None:
    before = await made(api, "steps", finalizers=["chiplog.dev/test"], labels={"test": "steps"})
    await api.delete(THINGS, NAMESPACE, "steps")
    await patched(api, "steps", {"metadata": {"finalizers": None}})
    watch = api.watch(THINGS, NAMESPACE, resource_version=version(before), labels="test=steps")
    assert await changes(watch, 2) == [("MODIFIED", "steps"), ("DELETED", "steps")]


@contract
async def test_the_last_event_of_an_object_has_a_version_of_its_own(api: KubeApi) -> None:
    """A watch that continues from it does not see the end again."""
    one = await made(api, "last", labels={"test": "last"})
    await api.delete(THINGS, NAMESPACE, "last")
    watch = api.watch(THINGS, NAMESPACE, resource_version=version(one), labels="test=last")
    async for event in watch:
        assert event.type is EventType.DELETED
        assert int(version(event.object)) > int(version(one))
        break
    with suppress(AttributeError):
        await watch.aclose()  # type: ignore[attr-defined]


def test_a_history_that_is_gone(server: Subject) -> None:
    async def scenario(api: KubeApi) -> None:
        await made(api, "gone")
        old = server.forget_history()
        with pytest.raises(Gone):
            await changes(api.watch(THINGS, NAMESPACE, resource_version=old), 1)

    server.run(scenario)


@contract
async def test_a_watch_ends_by_itself(api: KubeApi) -> None:
    """In order, after a while; the server may say meanwhile how far its history is."""
    before = await api.list_(THINGS, NAMESPACE, labels="test=none")
    after = before.resource_version
    async for event in api.watch(THINGS, NAMESPACE, resource_version=after, labels="test=none"):
        assert event.type is EventType.BOOKMARK
        assert int(version(event.object)) >= int(after)


# -- kinds without a status of their own


@contract
async def test_config_maps(api: KubeApi) -> None:
    one = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": "config"},
        "data": {"a": "1", "b": "2"},
    }
    first = await api.apply(CONFIG_MAPS, one, field_manager=ME)
    second = await api.apply(CONFIG_MAPS, {**one, "data": {"b": "3"}}, field_manager=ME)
    assert second["data"] == {"b": "3"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
