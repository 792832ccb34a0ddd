"""Which hash fits, which records lie elsewhere, and what is not accused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.verify.placement import AUTO, Chosen, Fit, Placement, candidates, choose

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
    fits = {name: Fit() for name in candidates(wanted)}
    accused: dict[str, list[tuple[int, int]]] = {name: [] for name in fits}
    for number, keys in enumerate(stored):
        facts = replace(FACTS, partition=number, partitions=len(stored))
        for name, fit in fits.items():
            placement = Placement(facts, name)
            for offset, key in enumerate(keys):
                if placement.see(1, offset, key) is not None:
                    accused[name].append((number, offset))
            fit.add(placement.fit)
    chosen = choose(fits, len(stored))
    return chosen, [] if chosen.reason else accused[chosen.partitioner]


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
    assert (chosen.partitioner, accused) == (partitioner, [(wrong, at)])
    assert chosen.share_percent > 99


def test_the_finding_says_where_the_record_belongs() -> None:
    key = KEYS[0]
    belongs = PARTITIONERS["murmur2"](key, 6)
    lies = (belongs + 1) % 6
    finding = Placement(replace(FACTS, partition=lies, partitions=6), "murmur2").see(3, 17, key)
    assert finding is not None
    assert (finding.offset, finding.replica, finding.partition) == (17, 3, lies)
    assert f"partition {belongs} of 6, by the murmur2 hash" in finding.message


def test_producers_that_choose_by_themselves_are_not_accused() -> None:
    stored: list[list[bytes | None]] = [list(KEYS[number::4]) for number in range(4)]
    for wanted in (AUTO, "murmur2"):
        chosen, accused = measured(stored, wanted)
        assert (chosen.partitioner, accused) == ("none", [])
        assert "producers choose otherwise" in chosen.reason


def test_two_kinds_of_producers_are_not_accused() -> None:
    java, native = placed("murmur2", 4, KEYS[:200]), placed("crc32", 4, KEYS[200:])
    chosen, accused = measured([one + other for one, other in zip(java, native, strict=True)])
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
    assert measured([[*KEYS]])[0] == Chosen(
        "none", 0.0, "a topic of one partition has no wrong place"
    )


def test_librdkafka_spreads_records_with_an_empty_key() -> None:
    stored = placed("crc32", 3, KEYS)
    for keys in stored:
        keys.append(b"")
    chosen, accused = measured(stored)
    assert (chosen.partitioner, accused) == ("crc32", [])
    murmured = placed("murmur2", 3, KEYS)
    wrong = next(one for one in range(3) if one != PARTITIONERS["murmur2"](b"", 3))
    murmured[wrong].append(b"")
    assert measured(murmured)[1] == [(wrong, len(murmured[wrong]) - 1)]
