"""List and watch against a server that misbehaves in every way a real one does."""

import asyncio
from collections.abc import Callable
from typing import Any

from chiplog_kube import kinds
from chiplog_kube.cache import ObjectCache
from chiplog_kube.reflector import Pace, Reflector, Scope


class FastClock:
    """Waits a hundred times shorter than it is asked to."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() * 100

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


class Diary:
    """What the reflector told."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def listed(self) -> None:
        self.entries.append("listed")

    def interrupted(self) -> None:
        self.entries.append("interrupted")


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def things(version: int, *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": thing(name, version)}


def reflect(
    server: Any,
    until: Callable[[ObjectCache], bool],
    relist_s: float = 1e9,
    watch_s: float = 1e9,
) -> tuple[ObjectCache, Diary, Reflector]:
    """Run a reflector until its cache is as expected."""

    async def scenario() -> tuple[ObjectCache, Diary, Reflector]:
        cache, diary = ObjectCache(lambda _before, _after: None), Diary()
        async with server.client() as api:
            reflector = Reflector(
                api,
                Scope(kind=kinds.TOPICS),
                cache,
                clock=FastClock(),
                listener=diary,
                pace=Pace(relist_s=relist_s, watch_s=watch_s),
            )
            task = asyncio.create_task(reflector.run())
            async with asyncio.timeout(5):
                while not until(cache):
                    assert not task.done(), task
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait({task})
            return cache, diary, reflector

    return asyncio.run(scenario())


def names(cache: ObjectCache) -> set[str]:
    return {key.name for key in cache.objects}


def test_it_lists_then_follows(server: Any) -> None:
    server.then_json(things(5, thing("a", 3)))
    server.then_lines(
        event("ADDED", "b", 6),
        event("DELETED", "a", 7),
        {"type": "BOOKMARK", "object": {}},
        ending="silence",
    )
    cache, diary, reflector = reflect(server, lambda cache: names(cache) == {"b"})
    assert diary.entries[0] == "listed"
    assert reflector.synced.is_set()
    assert reflector.last_contact_s is not None
    assert server.requests[1].query["resourceVersion"] == "5"
    assert len(cache) == 1


def test_a_watch_whose_time_is_up_goes_on_where_it_was(server: Any) -> None:
    server.then_json(things(5))
    server.then_lines(
        event("ADDED", "a", 6),
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
    )
    server.then_lines(event("ADDED", "b", 10), ending="silence")
    _, diary, _ = reflect(server, lambda cache: names(cache) == {"a", "b"}, watch_s=0.0)
    assert server.requests[2].query["resourceVersion"] == "9"
    assert diary.entries == ["listed"]


def test_a_watch_that_ends_before_its_time_leads_to_a_new_list(server: Any) -> None:
    server.then_json(things(50, thing("a", 3), thing("made after the copy", 40)))
    server.then_lines(event("MODIFIED", "a", 60))
    server.then_json(things(10, thing("a", 3)))
    server.then_lines(ending="silence")
    cache, diary, _ = reflect(server, lambda cache: names(cache) == {"a"})
    assert cache.objects[next(iter(cache.objects))]["metadata"]["resourceVersion"] == "3"
    assert diary.entries == ["listed", "listed"]


def test_a_version_too_old_leads_to_a_new_list(server: Any) -> None:
    server.then_json(things(5, thing("a", 3), thing("gone", 4)))
    server.then_lines({"type": "ERROR", "object": {"code": 410}})
    server.then_json(things(50, thing("a", 3), thing("b", 40)))
    server.then_lines(ending="silence")
    _, diary, _ = reflect(server, lambda cache: names(cache) == {"a", "b"})
    assert diary.entries == ["listed", "interrupted", "listed"]


def test_a_broken_watch_and_a_refused_list_are_tried_again(server: Any) -> None:
    server.then_json(things(5, thing("a", 3)))
    server.then_lines(ending="drop")
    server.then_status(503)
    server.then_status(404)
    server.then_json(things(60, thing("b", 55)))
    server.then_lines(ending="silence")
    _, diary, _ = reflect(server, lambda cache: names(cache) == {"b"})
    assert diary.entries == ["listed", "interrupted", "interrupted", "interrupted", "listed"]


def test_silence_leads_to_a_new_list(server: Any) -> None:
    server.then_json(things(5, thing("a", 3)))
    server.then_lines(ending="silence")
    server.then_json(things(60, thing("b", 55)))
    server.then_lines(ending="silence")
    reflect(server, lambda cache: names(cache) == {"b"})


def test_time_leads_to_a_new_list(server: Any) -> None:
    server.then_json(things(5, thing("a", 3)))
    server.then_lines()
    server.then_json(things(60, thing("b", 55)))
    server.then_lines()
    _, diary, _ = reflect(server, lambda cache: names(cache) == {"b"}, relist_s=0.5)
    assert set(diary.entries) == {"listed"}


def test_while_the_server_is_away_what_was_known_stays(server: Any) -> None:
    server.then_json(things(5, thing("a", 3)))
    server.then_status(503)

    def until(cache: ObjectCache) -> bool:
        return len(server.requests) > 6

    cache, diary, _ = reflect(server, until)
    assert names(cache) == {"a"}
    assert diary.entries[-1] == "interrupted"
