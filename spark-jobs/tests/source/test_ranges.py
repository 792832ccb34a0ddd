"""From offsets that a user says to ranges, checked against what a topic holds."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.source.options import BadOption
from chiplog_spark.source.ranges import (
    Held,
    Range,
    chosen,
    ends_of_trigger,
    places,
    ranges_between,
    ranges_of_stream,
    shared_out,
)
from chiplog_spark.wire.errors import OffsetOutOfRange, ReplicaNotThere, UnknownTopic
from chiplog_spark.wire.facts import EARLIEST, LATEST, PartitionFacts, TopicFacts
from chiplog_spark.wire.verdicts import LEADER


def topic_on(*replicas: tuple[int, ...]) -> TopicFacts:
    partitions = {
        index: PartitionFacts(held[0], 0, held, held) for index, held in enumerate(replicas)
    }
    brokers = {broker_id: ("h", broker_id) for held in replicas for broker_id in held}
    return TopicFacts("orders", UUID(int=1), partitions, brokers)


def test_partitions_are_those_that_are_wanted_and_held() -> None:
    topic = topic_on((1, 2), (2, 3), (1, 3))
    assert chosen(topic, None, LEADER) == [0, 1, 2]
    assert chosen(topic, None, 1) == [0, 2]
    assert chosen(topic, frozenset({1, 2}), 1) == [2]
    with pytest.raises(BadOption, match=r"option partitions: there is no partition 3; .* 0 to 2"):
        chosen(topic, frozenset({0, 3}), LEADER)
    with pytest.raises(ReplicaNotThere, match=r"broker 9 .* choose one of 1, 2, 3"):
        chosen(topic, None, 9)


def test_offsets_are_given_for_all_partitions_or_none() -> None:
    assert places("startingOffsets", EARLIEST, [0, 1]) == {0: EARLIEST, 1: EARLIEST}
    assert places("startingOffsets", {0: 5, 1: LATEST}, [0, 1]) == {0: 5, 1: LATEST}
    for bound, problem in (
        ({0: 5}, "partition 1 is missing"),
        ({0: 1, 1: 1, 7: 1}, "7 is not read"),
    ):
        with pytest.raises(BadOption, match=f"option startingOffsets: .*{problem}"):
            places("startingOffsets", bound, [0, 1])


def test_the_ranges_of_a_batch() -> None:
    held = {0: Held(10, 20), 1: Held(0, 0)}
    between = ranges_between("orders", {0: EARLIEST, 1: EARLIEST}, {0: LATEST, 1: LATEST}, held)
    assert between == [Range(0, 10, 20), Range(1, 0, 0)]
    assert ranges_between("orders", {0: 12}, {0: 12}, held) == [Range(0, 12, 12)]


@pytest.mark.parametrize(("start", "end", "odd"), [(9, 15, 9), (10, 21, 21), (21, LATEST, 21)])
def test_offsets_that_are_not_there_are_named_with_what_is(start: int, end: int, odd: int) -> None:
    with pytest.raises(
        OffsetOutOfRange, match=f"orders-0: offset {odd} .* offsets 10 to 20 can be read; "
    ):
        ranges_between("orders", {0: start}, {0: end}, {0: Held(10, 20)})


def test_a_range_goes_forward() -> None:
    with pytest.raises(BadOption, match="from 15 back to 12"):
        ranges_between("orders", {0: 15}, {0: 12}, {0: Held(10, 20)})


def stream(starts: dict[int, int], *, fails: bool = True) -> list[Range]:
    ends, log_starts = {0: 20, 1: 5}, {0: 10, 1: 0}
    return ranges_of_stream("orders", starts, ends, log_starts, fails_on_data_loss=fails)


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert stream({0: 15}) == [Range(0, 15, 20), Range(1, 0, 5)]


def test_a_trigger_without_news_reads_nothing() -> None:
    assert stream({0: 20, 1: 5}) == []


def test_what_is_gone_before_it_was_read_stops_a_stream_unless_configured_otherwise() -> None:
    with pytest.raises(
        OffsetOutOfRange, match=r"orders-0: .* offset 7 on were deleted; .* starts at 10"
    ):
        stream({0: 7, 1: 5})
    assert stream({0: 7, 1: 5}, fails=False) == [Range(0, 10, 20)]


def test_a_trigger_ends_at_the_high_watermarks_or_at_its_limit() -> None:
    held = {0: Held(0, 100), 1: Held(0, 10)}
    assert ends_of_trigger("orders", {0: 0, 1: 0}, held, None) == {0: 100, 1: 10}
    assert ends_of_trigger("orders", {0: 0, 1: 0}, held, 11) == {0: 10, 1: 1}
    assert ends_of_trigger("orders", {0: 100, 1: 10}, held, 11) == {0: 100, 1: 10}
    # Where what is waiting was deleted the limit counts what is left.
    assert ends_of_trigger("orders", {0: 5}, {0: Held(50, 90)}, 10) == {0: 60}


def test_a_topic_that_has_less_than_was_read_is_another_one() -> None:
    with pytest.raises(
        OffsetOutOfRange, match=r"orders-0: .* up to 11, .* ends at 10; .*created again"
    ):
        ends_of_trigger("orders", {0: 11}, {0: Held(0, 10)}, None)
    with pytest.raises(UnknownTopic, match="orders-1: the partition does not exist any more"):
        ends_of_trigger("orders", {0: 1, 1: 1}, {0: Held(0, 10)}, None)


@given(st.integers(0, 10_000), st.dictionaries(st.integers(0, 9), st.integers(1, 5_000)))
def test_a_limit_is_used_up_and_never_passed(room: int, waiting: dict[int, int]) -> None:
    shares = shared_out(room, waiting)
    assert shares.keys() == waiting.keys()
    assert all(0 <= shares[index] <= waiting[index] for index in waiting)
    assert sum(shares.values()) == min(room, sum(waiting.values()))
