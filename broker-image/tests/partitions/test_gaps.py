"""For how long a gap may come from another leader."""

import pytest

from chiplog_broker.partitions import gaps
from chiplog_broker.partitions.gaps import DOUBT_S, REMEMBERED_S, Gaps
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

NOW_S = 100.0


def header(producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=9)
    return read_header(build_batch([NewRecord(b"x")], BatchOptions(producer=producer)))


@pytest.mark.parametrize("tries_per_s", [0.1, 0.5, 1, 8])
def test_a_gap_that_stays_becomes_real(tries_per_s: float) -> None:
    """However often the producer tries again."""
    found = Gaps()
    for number in range(int(4 * DOUBT_S * tries_per_s)):
        passed_s = number / tries_per_s
        found.forget(NOW_S + passed_s)
        assert found.is_doubtful(header(), 5, NOW_S + passed_s) == (passed_s < DOUBT_S)


def test_another_gap_has_its_own_time() -> None:
    found = Gaps()
    assert found.is_doubtful(header(), 5, NOW_S)
    later_s = NOW_S + DOUBT_S - 1
    assert found.is_doubtful(header(), 6, later_s), "another number"
    assert found.is_doubtful(header(), 6, later_s + DOUBT_S - 1)
    assert not found.is_doubtful(header(), 6, later_s + DOUBT_S)
    assert found.is_doubtful(header(epoch=1), 6, later_s + DOUBT_S), "another epoch"
    assert found.is_doubtful(header(producer_id=8), 6, later_s + DOUBT_S), "another producer"


def test_a_gap_is_forgotten_when_nothing_comes_any_more() -> None:
    found = Gaps()
    assert not found
    found.is_doubtful(header(), 5, NOW_S)
    found.is_doubtful(header(producer_id=8), 5, NOW_S + 1)
    found.is_doubtful(header(), 5, NOW_S + 2)
    found.forget(NOW_S + 1 + REMEMBERED_S)
    assert found
    assert not found.is_doubtful(header(), 5, NOW_S + 1 + REMEMBERED_S), "this one goes on"
    found.forget(NOW_S + 1 + 2 * REMEMBERED_S)
    assert not found


def test_gaps_of_too_many_producers_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "MOST_DOUBTED", 2)
    found = Gaps()
    assert found.is_doubtful(header(1), 5, NOW_S)
    assert found.is_doubtful(header(2), 5, NOW_S)
    assert not found.is_doubtful(header(3), 5, NOW_S)
    assert found.is_doubtful(header(1), 5, NOW_S)
    found.forget(NOW_S + REMEMBERED_S)
    assert found.is_doubtful(header(3), 5, NOW_S + REMEMBERED_S)
