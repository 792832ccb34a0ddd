"""Which topics and partitions are meant."""

import pytest

from chiplog_cli.errors import CannotDo
from chiplog_cli.topic_choice import (
    checked_names,
    choice,
    chosen_partitions,
    without_internal,
)
from tests.views.facts import ORDERS, SMALL, at


def test_a_choice() -> None:
    assert choice(["orders:0,2-3", "small"]) == {"orders": (0, 2, 3), "small": None}


@pytest.mark.parametrize("texts", [[":1"], ["a:"], ["a:x"], ["a", "a:1"]])
def test_what_is_no_choice(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="write"):
        choice(texts)


def test_the_partitions_of_a_choice() -> None:
    chosen = choice(["orders:1", "small"])
    assert chosen_partitions([ORDERS, SMALL], chosen) == [at(1), at(0, "small")]


def test_a_partition_that_is_not_there() -> None:
    with pytest.raises(CannotDo, match="has no partition 7: its partitions are 0 to 1"):
        chosen_partitions([ORDERS], {"orders": (0, 7)})


def test_names() -> None:
    assert checked_names([], ["a", "b"]) == ["a", "b"]
    assert checked_names(["b"], ["a", "b"]) == ["b"]
    with pytest.raises(CannotDo, match="'ordrs' does not exist: did you mean 'orders'"):
        checked_names(["ordrs"], ["orders"])
    with pytest.raises(CannotDo, match="chiplog topics list"):
        checked_names(["x"], [])
    assert without_internal(["__consumer_offsets", "orders"]) == ["orders"]
