"""What is said of a partition fits together."""

import pytest

from tests.rebalance.worlds import partition


def test_only_replicas_are_in_sync() -> None:
    with pytest.raises(AssertionError, match="orders-0: the ISR has brokers without a replica"):
        partition(0, (1, 2), isr=(1, 3))


def test_only_a_replica_leads() -> None:
    with pytest.raises(AssertionError, match="orders-0: the leader holds no replica"):
        partition(0, (1, 2), leader=3)
