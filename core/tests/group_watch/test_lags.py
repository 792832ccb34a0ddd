"""How far a group is behind."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.group_watch.bands import EDGES, UNKNOWN, band
from chiplog_core.group_watch.lags import Ends, Moment, ends_of, find_lags
from chiplog_core.groups.at import At
from chiplog_core.ids import MAX_INT64, Offset, PartitionIndex
from chiplog_core.limits import MAX_GROUP_STATUS_PARTITIONS
from chiplog_core.model.group_exchange import (
    GroupFacts,
    LogRefusal,
    PartitionOffset,
    PartitionPosition,
    Positions,
    RecordTime,
    TopicOffsets,
    TopicPositions,
)

NOTHING = Ends(offsets={}, times_ms={})
OFFSET = st.integers(0, MAX_INT64)


def facts(*offsets: tuple[int, int | None], topic: str = "orders") -> GroupFacts:
    """A group by what it committed in each partition, and the ends its coordinator knows."""
    return GroupFacts(
        group_id="billing",
        topics=(
            TopicOffsets(
                topic=topic,
                partitions=tuple(
                    PartitionOffset(
                        partition=PartitionIndex(number),
                        committed_offset=committed,
                        end_offset=None if end is None else Offset(end),
                    )
                    for number, (committed, end) in enumerate(offsets)
                ),
            ),
        ),
    )


@given(st.lists(st.tuples(st.integers(-1, MAX_INT64), st.none() | OFFSET), max_size=20), st.data())
def test_a_lag_is_never_negative_but_where_nothing_was_committed(
    offsets: list[tuple[int, int | None]], data: st.DataObject
) -> None:
    ends = {
        At("orders", number): data.draw(OFFSET)
        for number, (_, end) in enumerate(offsets)
        if end is None
    }
    lags = find_lags(facts(*offsets), Ends(offsets=ends, times_ms={}), 0)

    assert len(lags.partitions) == len(offsets)
    for one in lags.partitions:
        assert one.lag == -1 if one.committed_offset == -1 else one.lag >= 0
        assert one.committed_offset == -1 or one.lag == max(
            0, one.end_offset - one.committed_offset
        )
        assert one.lag_seconds == 0 if one.lag == 0 else one.lag_seconds == -1
    known = [one.lag for one in lags.partitions if one.lag >= 0]
    if known:
        assert (lags.total, lags.max) == (sum(known), max(known))
    else:
        assert lags.total == lags.max == (-1 if offsets else None)


def test_the_end_of_the_coordinator_itself_is_of_the_same_instant() -> None:
    ends = Ends(offsets={At("orders", 0): 99, At("orders", 1): 99}, times_ms={})

    lags = find_lags(facts((10, 12), (10, None)), ends, 0)

    assert [(one.partition, one.lag) for one in lags.partitions] == [(1, 89), (0, 2)]


def test_a_partition_whose_leader_is_silent_stays_as_it_was() -> None:
    before = find_lags(facts((10, 15)), NOTHING, 0).partitions

    assert find_lags(facts((12, None)), NOTHING, 0, before).partitions == before
    left_out = find_lags(facts((12, None)), NOTHING, 0)
    assert left_out.partitions == ()
    assert left_out.unreachable == {At("orders", 0)}


def test_the_age_is_that_of_the_next_record() -> None:
    at, minute_ms = At("orders", 0), 60_000

    def age(timestamp_ms: int, committed: int = 10) -> int:
        times = {Moment(at, 10): timestamp_ms}
        return (
            find_lags(facts((committed, 15)), Ends(offsets={}, times_ms=times), minute_ms)
            .partitions[0]
            .lag_seconds
        )

    assert age(0) == 60
    assert age(59_001) == 0
    assert age(90_000) == 0, "the producer's clock is ahead"
    assert age(-1) == -1, "it has no timestamp"
    assert age(0, committed=11) == -1, "that is another record's"
    assert age(0, committed=15) == 0, "nothing is left to be read"


def test_a_status_holds_the_largest_lags() -> None:
    many = MAX_GROUP_STATUS_PARTITIONS + 7
    lags = find_lags(facts(*((0, number) for number in range(many))), NOTHING, 0)

    assert len(lags.shown()) == MAX_GROUP_STATUS_PARTITIONS
    assert lags.shown()[0].lag == many - 1
    assert lags.shown()[-1].lag == 7
    assert lags.total == sum(range(many)), "all of them count"


@given(st.integers(-1, MAX_INT64), st.integers(-1, MAX_INT64))
def test_bands_rise_and_are_half_as_wide_as_what_is_below(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert band(low) <= band(high)
    if low > 0 and band(low) == band(high):
        assert high < low * 1.5 + 1
    if low <= 0 < high:
        assert band(low) < band(high), "no lag is another thing than any"


def test_bands_have_names_for_nothing_and_for_what_is_not_known() -> None:
    assert (band(None), band(-1), band(0), band(1)) == (UNKNOWN, UNKNOWN, 0, 1)
    assert band(MAX_INT64) < 120
    assert EDGES[:6] == (1, 2, 3, 4, 6, 9)


def test_what_a_leader_refused_is_not_known() -> None:
    answered = PartitionPosition(
        partition=PartitionIndex(0),
        end_offset=Offset(9),
        times=(RecordTime(offset=Offset(3), timestamp_ms=77),),
    )
    refused = PartitionPosition(
        partition=PartitionIndex(1), end_offset=Offset(9), refusal=LogRefusal.NOT_LEADER
    )
    silent = PartitionPosition(partition=PartitionIndex(2))
    topic = TopicPositions(topic="orders", partitions=(answered, refused, silent))

    assert ends_of([Positions(topics=(topic,), time_ms=0)]) == Ends(
        offsets={At("orders", 0): 9}, times_ms={Moment(At("orders", 0), 3): 77}
    )
