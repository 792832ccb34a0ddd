"""Every checker sees what was planted for it, and nothing in a history without faults."""

import pytest

from e2e.sim.checkers import check
from e2e.sim.history import Event, History, Kind

P = "orders-0"


def sound() -> History:
    """Three records written by one producer and read by one consumer; one send is unknown."""
    history = History()
    for number, value in enumerate(("a", "b", "c")):
        add(history, Kind.SENT, value)
        add(history, Kind.ACKED, value, number)
    add(history, Kind.SENT, "unknown")
    add(history, Kind.SENT, "unknown but stored")
    add(history, Kind.SOUGHT, offset=0, client="c1")
    for number, value in enumerate(("a", "b", "c", "unknown but stored")):
        add(history, Kind.READ, value, number, "c1")
    history.final[P] = [(0, "a"), (1, "b"), (2, "c"), (3, "unknown but stored")]
    return history


def add(
    history: History, kind: Kind, value: str = "", offset: int = -1, client: str = "p1"
) -> None:
    history.events.append(Event(len(history.events), kind, client, P, value, offset))


def names(history: History) -> set[str]:
    return {one.name for one in check(history)}


def test_a_sound_history_has_no_anomalies() -> None:
    assert check(sound()) == []


def test_a_lost_write() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", 4)
    assert names(history) == {"lost-write"}


def test_an_acknowledged_duplicate_without_offset_may_be_lost_too() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", -1)
    assert names(history) == {"lost-write"}


def test_a_partition_that_cannot_be_read() -> None:
    history = sound()
    del history.final[P]
    assert names(history) == {"unseen"}


def test_two_values_at_one_offset() -> None:
    history = sound()
    add(history, Kind.SENT, "x")
    add(history, Kind.SOUGHT, offset=1, client="c2")
    add(history, Kind.READ, "x", 1, "c2")
    assert "inconsistent-offsets" in names(history)


def test_an_acknowledgement_for_the_offset_of_another() -> None:
    history = sound()
    add(history, Kind.SENT, "d", client="p2")
    add(history, Kind.ACKED, "d", 1, "p2")
    assert names(history) == {"inconsistent-offsets", "lost-write"}


def test_a_duplicate() -> None:
    history = sound()
    history.final[P].append((4, "b"))
    assert names(history) == {"duplicate", "reordered"}


def test_duplicates_without_idempotence_are_allowed() -> None:
    history = sound()
    history.was_idempotent = False
    history.final[P].append((4, "unknown but stored"))
    assert "duplicate" not in names(history)


def test_a_later_send_that_lies_earlier() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", 1)
    assert "nonmonotonic-send" in names(history)


def test_other_producers_may_lie_between() -> None:
    history = sound()
    add(history, Kind.SENT, "d", client="p2")
    add(history, Kind.ACKED, "d", 4, "p2")
    history.final[P].append((4, "d"))
    assert names(history) == set()


def test_a_log_out_of_order() -> None:
    history = sound()
    history.final[P] = [(0, "b"), (1, "a"), (2, "c"), (3, "unknown but stored")]
    assert "reordered" in names(history)


def test_a_refused_record_that_is_read() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.FAILED, "d")
    assert names(history) == set()
    history.final[P].append((4, "d"))
    assert names(history) == {"G1a"}


def test_a_value_that_nobody_sent() -> None:
    history = sound()
    history.final[P].append((4, "?"))
    assert names(history) == {"never-sent"}


def test_a_value_sent_to_another_partition() -> None:
    history = sound()
    history.final["orders-1"] = [(0, "a")]
    assert names(history) == {"never-sent"}


def test_a_record_that_was_shown_and_is_gone() -> None:
    history = sound()
    history.final[P].pop()
    assert names(history) == {"dirty-read"}


@pytest.mark.parametrize(
    ("offset", "value", "name"),
    [(2, "c", "nonmonotonic-poll"), (5, "y", "poll-skip")],
)
def test_a_reader_that_is_led_astray(offset: int, value: str, name: str) -> None:
    history = sound()
    for new, at in (("x", 4), ("y", 5)):
        add(history, Kind.SENT, new)
        history.final[P].append((at, new))
    add(history, Kind.READ, value, offset, "c1")
    assert names(history) == {name}


def test_a_reader_may_go_where_it_wants() -> None:
    history = sound()
    add(history, Kind.SOUGHT, offset=1, client="c1")
    add(history, Kind.READ, "b", 1, "c1")
    assert names(history) == set()
