"""The cache never goes back, in whatever order its sources speak."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chiplog_kube.api import EventType, Manifest, ObjectList, WatchEvent
from chiplog_kube.cache import ObjectCache


def unheard(_before: Manifest | None, _after: Manifest | None) -> None:
    """Nobody listens."""


def thing(name: str, version: int, uid: str = "u1", namespace: str = "ns") -> Manifest:
    meta = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta}


def versions(cache: ObjectCache) -> dict[str, str]:
    return {key.name: one["metadata"]["resourceVersion"] for key, one in cache.objects.items()}


def test_an_older_state_is_ignored() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 10))
    cache.put(thing("a", 9))
    assert versions(cache) == {"a": "10"}
    cache.put(thing("a", 11))
    assert versions(cache) == {"a": "11"}


def test_versions_are_numbers_not_texts() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 99))
    cache.put(thing("a", 100))
    assert versions(cache) == {"a": "100"}


def test_the_same_version_again_wakes_nobody() -> None:
    seen: list[Any] = []
    cache = ObjectCache(lambda before, after: seen.append((before, after)))
    cache.put(thing("a", 10))
    cache.put(thing("a", 10))
    assert len(seen) == 1


def test_what_was_deleted_does_not_come_back_by_a_late_event() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 10))
    cache.remove(thing("a", 12))
    cache.apply(WatchEvent(EventType.MODIFIED, thing("a", 11)))
    cache.replace(ObjectList([thing("a", 11)], "11"))
    assert not cache.objects


def test_one_made_anew_under_the_name_is_another() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 10, "old"))
    cache.put(thing("a", 14, "new"))
    cache.apply(WatchEvent(EventType.DELETED, thing("a", 12, "old")))
    assert versions(cache) == {"a": "14"}
    cache.put(thing("a", 15, "old"))
    assert versions(cache) == {"a": "14"}


def test_a_list_removes_what_it_lacks_but_not_what_is_newer() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("old", 10))
    cache.put(thing("made-since", 21, "u2"))
    cache.replace(ObjectList([thing("other", 15, "u3")], "20"))
    assert versions(cache) == {"made-since": "21", "other": "15"}


def test_a_list_of_a_namespace_says_nothing_of_others() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 10, "u1", "left"))
    cache.put(thing("b", 10, "u2", "right"))
    cache.replace(ObjectList([], "20"), "left")
    assert versions(cache) == {"b": "10"}


@given(st.permutations(range(1, 9)))
def test_any_order_of_events_ends_with_the_newest(order: list[int]) -> None:
    cache = ObjectCache(unheard)
    newest = 0
    for version in order:
        cache.apply(WatchEvent(EventType.MODIFIED, thing("a", version)))
        newest = max(newest, version)
        assert versions(cache) == {"a": str(newest)}


def test_a_consistent_list_takes_back_what_a_restored_etcd_no_longer_has() -> None:
    seen: list[Any] = []
    cache = ObjectCache(lambda before, after: seen.append((before, after)))
    cache.put(thing("a", 100))
    cache.put(thing("b", 101, "u2"))
    cache.remove(thing("c", 102, "u3"))

    before = cache.now()
    restored = [thing("a", 50), thing("c", 40, "u3")]
    cache.replace(ObjectList(restored, "60"), since=before)

    assert versions(cache) == {"a": "50", "c": "40"}
    assert len(seen) == 2 + 3


def test_other_content_under_the_same_version_is_seen_by_a_consistent_list() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 100))

    other = {**thing("a", 100), "spec": {"partitions": 2}}
    cache.replace(ObjectList([other], "100"), since=cache.now())

    assert cache.get("ns", "a") == other


def test_a_list_never_takes_back_what_was_written_while_it_was_under_way() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 100))
    cache.put(thing("gone", 90, "u3"))

    before = cache.now()
    cache.put(thing("a", 105))  # the answer to an own write
    cache.put(thing("new", 106, "u2"))
    cache.remove(thing("gone", 107, "u3"))
    cache.replace(ObjectList([thing("a", 100), thing("gone", 90, "u3")], "104"), since=before)

    assert versions(cache) == {"a": "105", "new": "106"}


def test_an_unchanged_list_wakes_nobody() -> None:
    seen: list[Any] = []
    cache = ObjectCache(lambda before, after: seen.append((before, after)))
    cache.put(thing("a", 10))
    cache.replace(ObjectList([thing("a", 10)], "12"), since=cache.now())
    assert len(seen) == 1


def test_a_consistent_read_of_one_object_may_go_back() -> None:
    cache = ObjectCache(unheard)
    cache.put(thing("a", 100))
    cache.put(thing("a", 50), since=cache.now())
    assert versions(cache) == {"a": "50"}
