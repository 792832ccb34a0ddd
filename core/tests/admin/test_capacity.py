"""A cluster takes so many topics and partitions, and keeps what it has."""

import pytest

from chiplog_core.admin.capacity import Capacity
from chiplog_core.config.broker_keys import MAX_PARTITIONS, MAX_TOPICS


def capacity(topics: int, partitions: int) -> Capacity:
    return Capacity(topics=topics, partitions=partitions, max_topics=3, max_partitions=10)


@pytest.mark.parametrize(
    ("have", "more", "why"),
    [
        ((2, 9), (1, 1), ""),
        (
            (3, 3),
            (1, 1),
            "the cluster has 3 topics, and 1 more would exceed chiplog.max.topics, which is 3",
        ),
        (
            (2, 9),
            (1, 2),
            "has 9 partitions, and 2 more would exceed chiplog.max.partitions, which is 10",
        ),
        ((3, 9), (0, 1), ""),
        (
            (9, 99),
            (0, 1),
            "has 99 partitions, and 1 more would exceed chiplog.max.partitions, which is 10",
        ),
        # Nothing more is wished for: what is there runs on.
        ((9, 9), (0, 0), ""),
    ],
)
def test_only_more_is_refused(have: tuple[int, int], more: tuple[int, int], why: str) -> None:
    found = capacity(*have).why_exceeded(topics=more[0], partitions=more[1])
    assert why in found
    assert bool(found) is bool(why)
    assert not found or "delete topics, or raise " in found


def test_there_are_limits_where_nobody_has_set_any() -> None:
    found = Capacity.of({})
    assert (found.max_topics, found.max_partitions) == (MAX_TOPICS.default, MAX_PARTITIONS.default)
    # What the largest topics would take of etcd, 150 bytes a partition, is a part of its 2 GiB.
    assert found.max_partitions * 150 < 2**30 / 32


def test_limits_are_set_by_the_brokers_configuration() -> None:
    found = Capacity.of({"chiplog.max.topics": "5", "chiplog.max.partitions": "7"})
    assert (found.max_topics, found.max_partitions) == (5, 7)
