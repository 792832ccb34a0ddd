"""Verdicts on histories as clients could have left them: what is planted must be seen."""

import json
from pathlib import Path

import pytest

from e2e.chaos.by_java import JavaProducer, JavaReader
from e2e.chaos.controls import MUST_BE_SEEN, missed
from e2e.chaos.faults import FAULTS
from e2e.chaos.ledger import Ledger, longest_gap_s, name_of, padded
from e2e.chaos.report import line, numbers, remark
from e2e.chaos.run import Result
from e2e.chaos.transactions import Outcomes
from e2e.sim.checkers import Anomaly, check
from e2e.sim.history import Event, History, Kind

LABEL = "orders-0"


def history(count: int) -> History:
    """`count` records, sent, acknowledged and found."""
    found = History()
    for number in range(count):
        value = f"a.{number}"
        found.events.append(Event(number, Kind.SENT, "a", LABEL, value))
        found.events.append(Event(number, Kind.ACKED, "a", LABEL, value, number))
    found.final[LABEL] = [(number, f"a.{number}") for number in range(count)]
    found.starts[LABEL], found.ends[LABEL] = 0, count
    return found


def test_a_history_in_order_has_no_anomaly_and_shows_all_that_is_planted_in_it() -> None:
    one = history(5)
    assert check(one) == []
    assert missed(one) == frozenset()
    assert check(one) == [], "planting leaves the history as it was"


def test_a_history_too_short_to_plant_anything_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match="three acknowledged"):
        missed(history(2))


def test_a_checker_that_sees_nothing_makes_the_run_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.chaos.controls.check", lambda _: [])
    assert missed(history(5)) == MUST_BE_SEEN


@pytest.mark.parametrize("times_s", [[1.0, 2.0, 7.5, 8.0]])
def test_unavailable_is_the_longest_time_between_answers(times_s: list[float]) -> None:
    assert longest_gap_s(times_s, 100) == 5.5
    assert longest_gap_s([], 100) == 100


def test_the_worst_partition_counts() -> None:
    ledger = Ledger("orders", 2)
    ledger.acknowledged_s[0] += [1.0, 1.1, 1.2]
    ledger.acknowledged_s[1] += [1.0, 4.0, 1.5]
    assert ledger.unavailable_s() == 2.5
    assert ledger.acknowledged() == 6


def test_a_part_of_a_run_is_judged_by_the_times_that_overlap_with_it() -> None:
    ledger = Ledger("orders", 1)
    ledger.acknowledged_s[0] += [1.0, 4.0, 4.1, 4.2, 9.0, 9.1]
    assert ledger.unavailable_s() == pytest.approx(4.8)
    assert ledger.unavailable_s(0.0, 3.0) == pytest.approx(3.0)
    assert ledger.unavailable_s(4.05, 4.15) == pytest.approx(0.1)
    assert ledger.unavailable_s(5.0, 6.0) == pytest.approx(4.8)
    assert ledger.unavailable_s(9.05) == pytest.approx(0.1)


def test_a_latency_counts_for_the_part_in_which_its_record_was_sent() -> None:
    ledger = Ledger("orders", 1)
    for at_s, kind, client, value in (
        (1.0, Kind.SENT, "a", "a.1"),
        (1.1, Kind.SENT, "b", "b.1"),
        (2.0, Kind.SENT, "a", "a.2"),
        (2.5, Kind.ACKED, "a", "a.1"),
        (2.6, Kind.ACKED, "b", "b.1"),
        (2.25, Kind.ACKED, "a", "a.2"),
        (3.0, Kind.SENT, "a", "a.3"),
    ):
        ledger.events.append(Event(at_s, kind, client, "orders-0", value))
    assert ledger.latencies_s("a") == pytest.approx([0.25, 1.5])
    assert ledger.latencies_s("a", 1.5) == pytest.approx([0.25])
    assert ledger.latencies_s("a", 0.5, 1.5) == pytest.approx([1.5])


def test_a_value_is_known_by_its_name_only_where_it_is_whole() -> None:
    assert name_of(padded("librdkafka.7")) == "librdkafka.7"
    assert name_of(b"3.12") == "3.12"
    assert name_of(padded("librdkafka.7")[:-1]) != "librdkafka.7"
    assert name_of(None) == ""


def test_what_java_sent_without_an_answer_counts_where_it_is_found(tmp_path: Path) -> None:
    ledger = Ledger("orders", 1)
    java = JavaProducer("nowhere", ledger, tmp_path)
    stored = {"topic": "orders", "partition": 0, "value": "3.0", "offset": 0}
    java.line(text("producer_send_success", stored))
    java.line(text("producer_send_error", {"value": "3.1", "message": "too late"}))
    java.line(text("tool_data", {"sent": 2}))
    assert [(one.kind, one.value, one.offset) for one in ledger.events] == [(Kind.ACKED, "3.0", 0)]
    assert ledger.errors == ["java gave up 3.1: too late"]
    assert list(java.values()) == ["3.0", "3.1"]


def text(name: str, more: dict[str, object]) -> str:
    return json.dumps({"timestamp": 1, "name": name, **more})


def test_what_the_console_consumer_prints(tmp_path: Path) -> None:
    ledger = Ledger("orders", 1)
    reader = JavaReader("nowhere", ledger, tmp_path)
    reader.line(f"Offset:7\t{padded('kafka-python.3').decode()}")
    (one,) = ledger.events
    assert (one.kind, one.value, one.offset) == (Kind.READ, "kafka-python.3", 7)
    assert reader.read_up_to == {0: 8}
    with pytest.raises(ValueError, match="no record"):
        reader.line("Processed a total of 1 messages")


def result(**more: object) -> Result:
    known: dict[str, object] = {
        "name": "leader killed",
        "hits": 3,
        "acknowledged": 27_000,
        "records_per_s": 599.6,
        "unavailable_s": 1.26,
        "anomalies": (),
        "commits": 1_200,
        "group_anomalies": (),
        "transactions": Outcomes(committed=1_012, aborted=205, left=99, fenced=101, unknown=3),
        "transaction_anomalies": (),
        "errors": (),
        "missed": frozenset(),
    }
    return Result(**(known | more))  # type: ignore[arg-type]


def test_a_result_is_checked_and_shown() -> None:
    good = result()
    good.check()
    assert numbers(good) == ("3", "27,000", "600", "1.3", "0", "0", "1,200", "0", "1,012", "0")
    assert line(good).startswith("chaos, leader killed: 3 hits, 27,000 records")
    assert line(good).endswith(
        "; 1,012 transactions committed, 205 aborted, 99 left open, 101 fenced, 3 unknown, "
        "0 anomalies"
    )
    lost = result(anomalies=(Anomaly("lost-write", LABEL, "gone"),))
    assert remark(lost) == "lost-write"
    with pytest.raises(AssertionError, match="1 anomalies"):
        lost.check()
    back = result(group_anomalies=(Anomaly("offset-regression", LABEL, "back"),))
    assert remark(back) == "offset-regression"
    with pytest.raises(AssertionError, match="1 anomalies of groups"):
        back.check()
    torn = result(transaction_anomalies=(Anomaly("torn-transaction", LABEL, "torn"),))
    assert remark(torn) == "torn-transaction"
    with pytest.raises(AssertionError, match="1 anomalies of transactions"):
        torn.check()
    with pytest.raises(AssertionError, match="invalid"):
        result(missed=frozenset({"duplicate"})).check()
    with pytest.raises(AssertionError, match="given up"):
        result(errors=("java gave up 3.1",)).check()


def test_the_table_of_faults() -> None:
    assert len(FAULTS) >= 12
    assert len([one for one in FAULTS if one.is_short]) == 4
    assert len({one.name for one in FAULTS}) == len(FAULTS)
    assert all(one.how for one in FAULTS), "each says what it does"


def test_every_fault_is_in_the_documentation(checkout: Path) -> None:
    text = (checkout / "docs" / "faults.md").read_text()
    names = {one.name.partition(" on a ")[0] for one in FAULTS}
    assert not [name for name in names if f"| {name}" not in text]
