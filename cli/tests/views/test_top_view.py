"""Rates between two looks."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli import top_view
from chiplog_cli.facts import TopicPartition
from chiplog_cli.top_view import GroupSnapshot, Snapshot
from tests.views.facts import CLUSTER, ORDERS, SMALL, at

FIRST = Snapshot(
    at_s=100.0,
    cluster=CLUSTER,
    topics=(ORDERS, SMALL),
    starts={at(0): 5, at(0, "small"): 0},
    ends={at(0): 25, at(0, "small"): 100},
    groups=(
        GroupSnapshot(group_id="idle", state="Empty", members=0, lag=None),
        GroupSnapshot(group_id="billing", state="Stable", members=2, lag=30),
    ),
)
SECOND = replace(FIRST, at_s=102.0, ends={at(0): 45, at(0, "small"): 101})


def test_what_is_shown() -> None:
    assert top_view.text(FIRST, SECOND) == (
        "BROKER  ADDRESS  LEADERS  REPLICAS  RECORDS/S\n"
        "1       b1:9092  1        2         10.0\n"
        "2       b2:9092  1        3         0.5\n"
        "\n"
        "TOPIC   PARTITIONS  OFFLINE  UNDER-REPLICATED  RECORDS  RECORDS/S\n"
        "orders  2           1        1                 40       10.0\n"
        "small   1           0        0                 101      0.5\n"
        "\n"
        "GROUP    STATE   MEMBERS  LAG\n"
        "billing  Stable  2        30\n"
        "idle     Empty   0        -"
    )


def test_the_first_look_knows_no_rates() -> None:
    document = top_view.document(None, FIRST)
    assert {one["recordsPerSecond"] for one in document["topics"]} == {None}
    assert top_view.text(None, FIRST).splitlines()[1] == ("1       b1:9092  1        2         -")


def test_a_topic_made_anew_has_no_rate() -> None:
    assert top_view.rates(FIRST, replace(SECOND, ends={at(0): 3})) == {}


def test_what_could_not_be_found_out_is_said() -> None:
    look = replace(SECOND, groups=(), remarks=("groups: not served",))
    assert top_view.text(FIRST, look).endswith("\n\ngroups: not served")
    assert top_view.document(FIRST, look)["remarks"] == ["groups: not served"]


ENDS = st.dictionaries(st.builds(at, st.integers(0, 4)), st.integers(0, 1 << 40))


@given(ENDS, ENDS, st.floats(0.001, 1000))
def test_rates_are_of_what_both_looks_know_and_never_negative(
    before: dict[TopicPartition, int],
    after: dict[TopicPartition, int],
    passed_s: float,
) -> None:
    found = top_view.rates(
        replace(FIRST, ends=before), replace(FIRST, ends=after, at_s=FIRST.at_s + passed_s)
    )
    assert set(found) <= set(before) & set(after)
    assert all(rate >= 0 for rate in found.values())
