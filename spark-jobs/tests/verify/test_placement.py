"""Which hash fits, which records lie elsewhere, and what is not accused."""

import json
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.verify.placement import (
    AUTO,
    Chosen,
    Placement,
    Tally,
    candidates,
    choose,
    notices,
)

from .logs import batch, facts_of

FACTS = facts_of([batch(0, 1)])
KEYS = [f"customer-{number}".encode() for number in range(400)]


def placed(partitioner: str, count: int, keys: list[bytes]) -> list[list[bytes | None]]:
    """What each partition holds, in order."""
    found: list[list[bytes | None]] = [[] for _ in range(count)]
    for key in keys:
        found[PARTITIONERS[partitioner](key, count)].append(key)
    return found


def measured(
    stored: list[list[bytes | None]], wanted: str = AUTO
) -> tuple[Chosen, list[tuple[int, int]]]:
    """The choice for a topic, and the partition and offset of what it accuses."""
    chosen, accused, _ = judged(stored, wanted)
    return chosen, accused


def judged(
    stored: list[list[bytes | None]], wanted: str = AUTO
) -> tuple[Chosen, list[tuple[int, int]], dict[str, str]]:
    """And what is to be known beside it, by reason."""
    names, tally, accused = candidates(wanted), Tally(), []
    for number, keys in enumerate(stored):
        placement = Placement(replace(FACTS, partition=number, partitions=len(stored)), names)
        for offset, key in enumerate(keys):
            if placement.check_next(1, offset, key) is not None:
                accused.append((number, offset))
        tally.add(Tally.from_json(json.loads(json.dumps(placement.tally.to_json()))))
    chosen = choose(tally, names, len(stored))
    told = {one["reason"]: one["message"] for one in notices("orders", chosen, tally)}
    return chosen, [] if chosen.reason else accused, told


def together(*stored: list[list[bytes | None]]) -> list[list[bytes | None]]:
    """The partitions of one topic to which several clients wrote, one after the other."""
    return [[key for keys in parts for key in keys] for parts in zip(*stored, strict=True)]


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@given(count=st.integers(2, 24))
def test_auto_finds_the_hash_that_placed_them(partitioner: str, count: int) -> None:
    chosen, accused = measured(placed(partitioner, count, KEYS))
    assert (chosen.partitioner, chosen.share_percent, accused) == (partitioner, 100.0, [])


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("wanted", [AUTO, "itself"])
@given(count=st.integers(2, 24), data=st.data())
def test_a_record_in_the_wrong_partition(
    partitioner: str, wanted: str, count: int, data: st.DataObject
) -> None:
    stored = placed(partitioner, count, KEYS)
    key = data.draw(st.sampled_from(KEYS))
    right = PARTITIONERS[partitioner](key, count)
    wrong = data.draw(st.integers(0, count - 1).filter(lambda one: one != right))
    at = data.draw(st.integers(0, len(stored[wrong])))
    stored[wrong].insert(at, key)
    chosen, accused = measured(stored, AUTO if wanted == AUTO else partitioner)
    # Where another hash puts it, another client may have sent it: only a hash that is named
    # accuses it.
    is_of_another = any(of(key, count) == wrong for of in PARTITIONERS.values())
    is_told = wanted != AUTO or not is_of_another
    assert (chosen.partitioner, accused) == (partitioner, [(wrong, at)] if is_told else [])
    assert chosen.share_percent > 99


def test_the_finding_says_where_the_record_belongs() -> None:
    key = KEYS[0]
    belongs = PARTITIONERS["murmur2"](key, 6)
    lies = (belongs + 1) % 6
    facts = replace(FACTS, partition=lies, partitions=6)
    finding = Placement(facts, ["murmur2"]).check_next(3, 17, key)
    assert finding is not None
    assert (finding.offset, finding.replica, finding.partition) == (17, 3, lies)
    assert f"belongs in partition {belongs} (murmur2) of 6" in finding.message


def test_producers_that_choose_by_themselves_are_not_accused() -> None:
    stored: list[list[bytes | None]] = [list(KEYS[number::4]) for number in range(4)]
    for wanted in (AUTO, "murmur2"):
        chosen, accused = measured(stored, wanted)
        assert (chosen.partitioner, accused) == ("none", [])
        assert "producers choose partitions in another way" in chosen.reason


MANY = [f"customer-{number}".encode() for number in range(2_000)]


@pytest.mark.parametrize("percent", [1, 4, 50])
@pytest.mark.parametrize("count", [2, 3, 6, 24])
@pytest.mark.parametrize("other", ["crc32", "fnv1a"])
def test_two_kinds_of_producers_are_not_accused(percent: int, count: int, other: str) -> None:
    """However few records one of them has: a log in good order is never accused."""
    few = len(MANY) * percent // 100
    stored = together(placed("murmur2", count, MANY[few:]), placed(other, count, MANY[:few]))
    chosen, accused, told = judged(stored)
    assert accused == []
    assert {chosen.partitioner, *(one.partitioner for one in chosen.others)} == {"murmur2", other}
    assert "murmur2" in told["MixedPlacement"]
    assert f"by {other}" in told["MixedPlacement"]
    assert "KeysInTwoPartitions" not in told, "each key is written by one of them"


def test_three_kinds_of_producers_are_not_accused() -> None:
    parts = MANY[:900], MANY[900:1_500], MANY[1_500:]
    stored = together(*map(placed, ("murmur2", "crc32", "fnv1a"), (6, 6, 6), parts))
    chosen, accused, _ = judged(stored)
    assert (chosen.partitioner, accused) == ("murmur2", [])
    assert [one.partitioner for one in chosen.others] == ["crc32", "fnv1a"]


def test_what_fits_none_of_two_kinds_of_producers_is_accused() -> None:
    stored = together(placed("murmur2", 6, MANY[:1_000]), placed("crc32", 6, MANY[1_000:]))
    places = {of(KEYS[0], 6) for of in PARTITIONERS.values()}
    wrong = next(one for one in range(6) if one not in places)
    stored[wrong].append(KEYS[0])
    _, accused, told = judged(stored)
    assert accused == [(wrong, len(stored[wrong]) - 1)]
    assert "MixedPlacement" in told


def test_keys_that_two_kinds_of_producers_share_are_reported() -> None:
    stored = together(placed("murmur2", 6, MANY), placed("crc32", 6, MANY))
    _, accused, told = judged(stored)
    assert accused == []
    assert re.match(r"of 64 keys that were looked at, [45][0-9] \(", told["KeysInTwoPartitions"])


def test_producers_of_one_kind_leave_nothing_to_be_reported() -> None:
    assert judged(placed("fnv1a", 6, MANY)) == (Chosen("fnv1a", 100.0, ""), [], {})


@pytest.mark.parametrize("count", [2, 3, 6, 24])
def test_a_quarter_of_a_topic_by_a_partitioner_of_their_own(count: int) -> None:
    """Some of its records lie where a hash puts them by chance, and nothing follows from it."""
    stored = placed("murmur2", count, MANY[500:])
    rng = random.Random(7)  # noqa: S311 - no secret
    for key in MANY[:500]:
        stored[rng.randrange(count)].append(key)
    chosen, accused, _ = judged(stored)
    assert (chosen.partitioner, accused) == ("none", [])


@given(before=st.integers(1, 8), more=st.integers(1, 8), old=st.integers(150, 390))
def test_what_is_older_than_the_topics_growth_is_not_accused(
    before: int, more: int, old: int
) -> None:
    stored = placed("murmur2", before + more, KEYS[old:])
    for number, keys in enumerate(placed("murmur2", before, KEYS[:old])):
        stored[number] = keys + stored[number]
    chosen, accused = measured(stored, "murmur2")
    assert accused == []
    assert chosen.reason
    chosen, accused = measured(stored)
    assert accused == []


def test_records_without_a_key_and_few_records_say_nothing() -> None:
    assert measured([[None] * 50, [None] * 50])[0].partitioner == "none"
    chosen, _ = measured([[KEYS[0]], [KEYS[1]]])
    assert "too few" in chosen.reason
    assert measured([[*KEYS]])[0] == Chosen("none", 0.0, "the topic has only one partition")


def test_librdkafka_spreads_records_with_an_empty_key() -> None:
    stored = placed("crc32", 3, KEYS)
    for keys in stored:
        keys.append(b"")
    chosen, accused = measured(stored)
    assert (chosen.partitioner, accused) == ("crc32", [])
    murmured = placed("murmur2", 3, KEYS)
    wrong = next(one for one in range(3) if one != PARTITIONERS["murmur2"](b"", 3))
    murmured[wrong].append(b"")
    assert measured(murmured)[1] == [], "librdkafka may have put it there"
    assert measured(murmured, "murmur2")[1] == [(wrong, len(murmured[wrong]) - 1)]
