"""Where a group is: the rows of `kafka-consumer-groups.sh --describe`."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli import group_lag
from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import TopicPartition
from tests.views.facts import at, group, member

READER = member("reader", at(0), at(1))
IDLE = member("idle")


def test_rows_by_partition_and_members_without_one_last() -> None:
    found = group_lag.rows(
        group(IDLE, READER),
        {at(0): 7, at(3, "small"): 1},
        {at(0): 10, at(1): 5, at(3, "small"): 1},
    )
    header, *lines = group_lag.text(found).splitlines()
    assert header == (
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  "
        "CONSUMER-ID  HOST       CLIENT-ID"
    )
    assert [line.split() for line in lines] == [
        ["billing", "orders", "0", "7", "10", "3", "reader-id", "/10.0.0.1", "reader"],
        ["billing", "orders", "1", "-", "5", "-", "reader-id", "/10.0.0.1", "reader"],
        ["billing", "small", "3", "1", "1", "0", "-", "-", "-"],
        ["billing", "-", "-", "-", "-", "-", "idle-id", "/10.0.0.1", "idle"],
    ]
    assert group_lag.total_lag(found) == 3


def test_an_end_that_nobody_tells_makes_no_lag() -> None:
    (row,) = group_lag.rows(group(), {at(0): 7}, {at(0): BrokerRefused("X", "no leader")})
    assert (row.committed, row.end, row.lag) == (7, None, None)
    assert group_lag.total_lag([row]) is None


def test_documents() -> None:
    (document,) = group_lag.documents(group_lag.rows(group(), {at(0): 7}, {at(0): 9}))
    assert document == {
        "topic": "orders",
        "partition": 0,
        "currentOffset": 7,
        "logEndOffset": 9,
        "lag": 2,
        "consumerId": None,
        "host": None,
        "clientId": None,
    }


OFFSETS = st.dictionaries(st.builds(at, st.integers(0, 5)), st.integers(0, 1 << 40))


@given(committed=OFFSETS, ends=OFFSETS, owned=st.sets(st.integers(0, 5)))
def test_every_partition_once_and_no_lag_below_zero(
    committed: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    owned: set[int],
) -> None:
    there = group(member("reader", *map(at, owned)))
    rows = group_lag.rows(there, committed, ends)
    places = [row.at for row in rows if row.at is not None]
    assert places == sorted(group_lag.partitions_of(there, committed))
    assert all(row.lag is None or row.lag >= 0 for row in rows)
    assert all((row.member is not None) == (row.at.partition in owned) for row in rows if row.at)
