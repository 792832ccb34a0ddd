"""Verdicts on groups as their members could have left them: what is planted must be seen."""

import pytest

from e2e.chaos.controls import MUST_BE_SEEN_OF_GROUPS, missed_of_groups
from e2e.chaos.group_checkers import check_groups
from e2e.chaos.group_history import (
    NEVER_S,
    Committed,
    Found,
    GroupHistory,
    Place,
    Processed,
    Said,
)
from e2e.chaos.ledger import Ledger
from e2e.chaos.member_lines import MS, JavaLines, OwnLines
from e2e.sim.history import History

LABEL = "orders-0"
PLACE = Place("first", LABEL)


def records(count: int) -> History:
    """`count` records, stored and read at the end."""
    found = History()
    found.final[LABEL] = [(number, f"a.{number}") for number in range(count)]
    found.starts[LABEL], found.ends[LABEL] = 0, count
    return found


def committed(offset: int, asked_s: float, answered_s: float = NEVER_S) -> Committed:
    return Committed(asked_s, answered_s, PLACE, offset, "first-librdkafka.1")


def groups() -> GroupHistory:
    """All ten records processed, and committed by two requests."""
    return GroupHistory(
        commits=[committed(6, 1.0, 1.2), committed(10, 2.0, 2.3)],
        found=[
            Found(0.5, PLACE, -1, "who asks"),
            Found(1.1, PLACE, -1, "who asks"),
            Found(1.5, PLACE, 6, "first-kafka-python.1"),
            Found(2.2, PLACE, 10, "who asks"),
            Found(2.2, PLACE, 6, "who asks"),
            Found(2.4, PLACE, 10, "who asks"),
        ],
        processed=[
            Processed(PLACE, 0, 5, "first-librdkafka.1"),
            Processed(PLACE, 4, 9, "first-kafka-python.1"),
        ],
        final={PLACE: 10},
    )


def names(found: GroupHistory, count: int = 10) -> list[str]:
    return [one.name for one in check_groups(found, records(count))]


def test_groups_in_order_have_no_anomaly_and_show_all_that_is_planted_in_them() -> None:
    one = groups()
    assert names(one) == []
    assert missed_of_groups(one, records(10)) == frozenset()
    assert one == groups(), "planting leaves the history as it was"


def test_a_history_too_short_to_plant_anything_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match="no group committed"):
        missed_of_groups(GroupHistory(), records(10))


def test_a_checker_that_sees_nothing_makes_the_run_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.chaos.controls.check_groups", lambda *_: [])
    assert missed_of_groups(groups(), records(10)) == MUST_BE_SEEN_OF_GROUPS


@pytest.mark.parametrize("offset", [-1, 0, 6, 9])
def test_a_committed_offset_is_never_below_one_acknowledged_before_the_request(offset: int) -> None:
    one = groups()
    one.found.append(Found(2.31, PLACE, offset, "first-java.2"))
    (found,) = check_groups(one, records(10))
    assert (found.name, found.partition) == ("offset-regression", f"first: {LABEL}")
    assert "the commit of offset 10 by first-librdkafka.1 was acknowledged" in found.what
    assert f"first-java.2 asked at 2.310 s and got {offset}" in found.what


def test_a_commit_may_be_seen_or_not_until_it_is_acknowledged() -> None:
    one = groups()
    one.found += [Found(2.3, PLACE, 6, "who asks"), Found(2.05, PLACE, 10, "who asks")]
    assert names(one) == []


def test_a_commit_without_an_answer_may_be_there_or_not() -> None:
    one = groups()
    one.commits.append(committed(8, 1.9))
    one.found.append(Found(3.0, PLACE, 8, "who asks"))
    assert names(one) == [], "it may have come last"
    one.found.append(Found(3.0, PLACE, 7, "who asks"))
    assert names(one) == ["offset-regression"], "7 nobody asked for"


def test_another_partition_or_group_has_offsets_of_its_own() -> None:
    one = groups()
    one.found += [
        Found(3.0, Place("second", LABEL), 0, "who asks"),
        Found(3.0, Place("first", "orders-1"), -1, "who asks"),
    ]
    assert names(one) == []


def test_a_record_that_nobody_processed_is_skipped_once_it_is_committed_past() -> None:
    one = groups()
    one.processed = [Processed(PLACE, 0, 5, "a"), Processed(PLACE, 7, 9, "a")]
    (found,) = check_groups(one, records(10))
    assert found.name == "group-skipped"
    what = "1 records below the committed offset 10 were not processed, the first at offset 6"
    assert what in found.what
    one.commits, one.final = [committed(6, 1.0, 1.2), committed(10, 2.0)], {PLACE: 10}
    assert names(one) == [], "nobody was told that it is committed"


def test_a_group_that_is_not_at_the_end_stands_still() -> None:
    late = groups()
    late.late["first"] = "STABLE: {'a': [0]}"
    assert names(late, 11) == ["no-group-progress"]
    (anomaly,) = check_groups(late, records(11))
    assert anomaly.what.endswith("group: STABLE: {'a': [0]}")


def test_what_our_own_members_say() -> None:
    ledger = Ledger("orders", 2)
    ledger.began_s = 100.0
    member = OwnLines("first", "first-librdkafka.1", ledger)
    for line in (
        {"event": "given", "t": 101, "partitions": [0, 1]},
        {"event": "began", "t": 102, "since": 101, "partition": 0, "offset": 7},
        {"event": "processed", "t": 103, "partition": 0, "runs": [[7, 9], [11, 11]]},
        {"event": "commit", "t": 103, "offsets": {"0": 12}},
        {"event": "committed", "t": 104, "offsets": {"0": 12}},
        {"event": "commit", "t": 105, "offsets": {"0": 20, "1": 5}},
        {"event": "refused", "t": 106, "what": "NOT_COORDINATOR"},
        {"event": "commit", "t": 107, "offsets": {"1": 5}},
    ):
        member.take(line)
    groups = ledger.groups
    who = "first-librdkafka.1"
    assert groups.found == [Found(1.0, PLACE, 7, who)]
    assert groups.processed == [Processed(PLACE, 7, 9, who), Processed(PLACE, 11, 11, who)]
    assert groups.commits == [
        Committed(3.0, 4.0, PLACE, 12, who),
        Committed(5.0, NEVER_S, PLACE, 20, who),
        Committed(5.0, NEVER_S, Place("first", "orders-1"), 5, who),
    ]
    assert groups.problems == {"NOT_COORDINATOR": 1}
    assert groups.said == [
        Said(1.0, who, "given", "[0, 1]"),
        Said(6.0, who, "refused", "NOT_COORDINATOR"),
    ]
    member.end()  # killed before the answer came
    assert groups.commits[3:] == [Committed(7.0, NEVER_S, Place("first", "orders-1"), 5, who)]
    assert groups.acknowledged() == 1
    assert groups.groups_at_work() == {"first"}


def test_what_kafkas_consumer_says() -> None:
    ledger = Ledger("orders", 2)
    member = JavaLines("first", "first-java.1", ledger)
    member.from_wall_clock_s = -1_000.0
    both = [{"topic": "orders", "partition": number} for number in range(2)]
    read = [{**both[0], "count": 3, "minOffset": 7, "maxOffset": 9}]
    gap = [{**both[1], "count": 2, "minOffset": 4, "maxOffset": 6}]
    for line in (
        {"timestamp": 1_001_000, "name": "partitions_assigned", "partitions": both},
        {"timestamp": 1_002_000, "name": "records_consumed", "count": 3, "partitions": read},
        {"timestamp": 1_003_000, "name": "offsets_committed", "offsets": [], "success": True},
        {"timestamp": 1_004_000, "name": "records_consumed", "count": 2, "partitions": gap},
        {"timestamp": 1_005_000, "name": "offsets_committed", "success": False, "error": "late"},
        {"timestamp": 1_006_000, "name": "partitions_revoked", "partitions": both},
    ):
        member.take(line)
    groups, who, other = ledger.groups, "first-java.1", Place("first", "orders-1")
    assert groups.found == [Found(1.0, PLACE, 7, who), Found(1.0, other, 4, who)]
    assert groups.processed == [
        Processed(PLACE, 7, 9, who),
        Processed(other, 4, 4, who),
        Processed(other, 6, 6, who),
    ]
    assert groups.commits == [
        Committed(2.0, 3.0 + MS, PLACE, 10, who),
        Committed(4.0, NEVER_S, other, 7, who),
    ]
