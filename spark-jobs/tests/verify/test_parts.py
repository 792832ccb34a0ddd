"""The small pieces: what was read, who is odd, how many are kept, how fast, which epochs."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.covered import Covered, Range
from chiplog_spark.verify.epochs import history_of, next_epoch_to_request
from chiplog_spark.verify.facts import UNKNOWN, EpochStart
from chiplog_spark.verify.findings import Finding, Findings
from chiplog_spark.verify.majority import disagreeing_replicas
from chiplog_spark.verify.pace import Pace, share_of


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.integers(0, 31))
def test_covered_holds_what_its_ranges_hold(pairs: list[tuple[int, int]], offset: int) -> None:
    covered = Covered(Range(1, start, end) for start, end in pairs)
    assert (covered.range_at(offset) is not None) == any(s <= offset < e for s, e in pairs)
    for (_, end), (start, _) in zip(covered.ranges, covered.ranges[1:], strict=False):
        assert end < start  # else it is one range
    assert covered.end == max((e for s, e in pairs if s < e), default=0)


@given(st.dictionaries(st.integers(1, 5), st.integers(0, 2), min_size=1), st.integers(1, 5))
def test_odd_ones_are_never_most(said: dict[int, int], leader: int) -> None:
    odd = disagreeing_replicas(said, leader)
    assert bool(odd) == (len(set(said.values())) > 1)
    assert len({one for broker, one in said.items() if broker not in odd}) == 1
    for value in set(said.values()):
        holders = {broker for broker, one in said.items() if one == value}
        if 2 * len(holders) > len(said):
            assert not holders & odd


def test_the_first_findings_are_kept_and_all_counted() -> None:
    findings = Findings(limit=2)
    findings.extend(Finding(Check.CRC, "t", 0, at, 1, "") for at in range(5))
    findings.add(Finding(Check.CRC, "t", 0, 9, 2, ""))
    assert [(one.offset, one.replica) for one in findings.kept] == [(0, 1), (1, 1), (9, 2)]
    assert sum(findings.counts.values()) == 6


def test_a_violation_says_only_what_is_known() -> None:
    found = Finding(Check.MISSING_SEGMENT, "t", 3, UNKNOWN, UNKNOWN, "gone").violation()
    assert (found.offset, found.replica, found.partition, found.topic) == (None, None, 3, "t")


@given(st.lists(st.integers(1, 1_000), min_size=1), st.integers(1, 500))
def test_a_task_keeps_to_its_part(sizes: list[int], limit: int) -> None:
    pace, now_s = Pace(float(limit), 100.0), 100.0
    for size in sizes:
        now_s += pace.wait_s(size, now_s)
    assert now_s - 100.0 >= sum(sizes) / limit - 1e-6
    assert Pace(None, 0.0).wait_s(10**12, 0.0) == 0.0


def test_what_is_not_used_is_not_saved_up_beyond_the_average() -> None:
    pace = Pace(10.0, 0.0)
    assert pace.wait_s(50, now_s=2.0) == 3.0
    assert pace.wait_s(10, now_s=9.0) == 0.0


def test_each_of_the_tasks_gets_the_same() -> None:
    assert share_of(None, 8) is None
    assert share_of(100, 4) == 25.0
    assert share_of(100, 0) == 100.0


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(0, 60),
)
def test_the_history_that_is_requested_step_by_step(
    steps: list[tuple[int, int]], start: int
) -> None:
    """A leader answers each question with the largest epoch up to it, and where that ends."""
    spans, epoch, offset = [], -1, 0
    for rise, length in steps:
        epoch, offset = epoch + rise, offset + length
        spans.append((epoch, offset))
    start = min(start, offset - 1)

    found: list[tuple[int, int]] = [spans[-1]]
    while (asked := next_epoch_to_request(found, start)) != UNKNOWN:
        known = [one for one in spans if one[0] <= asked]
        if not known:
            break
        found.append(known[-1])
    history = history_of(found)
    begin = 0
    for epoch, end in spans:
        for at in range(max(begin, start), end):
            assert history.epoch_at(at) == epoch
        begin = end


def test_without_an_answer_nothing_is_known_of_epochs() -> None:
    assert next_epoch_to_request([], 0) == UNKNOWN
    assert history_of([]).epoch_at(7) == UNKNOWN
    assert history_of([(0, 10)]).starts == (EpochStart(0, 0),)
