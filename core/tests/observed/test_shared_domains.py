"""Which partitions share a rack or a node although they need not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Level, Place
from chiplog_core.observed.shared_domains import SharedDomains
from chiplog_core.rebalance.replicas import replica_moves
from chiplog_core.rebalance.settings import read_settings
from tests.rebalance.worlds import brokers, partition, rated

ALL = frozenset(map(BrokerId, range(1, 7)))


def needless(replicas: str, racks: int = 0, nodes: int = 0, without: str = "") -> set[str]:
    """Of brokers 1 to 6, which take turns in racks and on nodes; those in `without` take none."""
    places = {one.broker_id: Place(one.rack, one.node) for one in brokers(6, racks, nodes)}
    taking = ALL - {BrokerId(int(one)) for one in without}
    found = SharedDomains.of(places, taking).needless([BrokerId(int(one)) for one in replicas])
    assert {one.level for one in found} <= set(Level)
    return {one.name for one in found}


@pytest.mark.parametrize(
    ("replicas", "nodes", "without", "shared"),
    [
        ("14", 3, "", {"n0"}),
        ("12", 3, "", set()),
        ("1425", 3, "", {"n0", "n1"}),
        ("1425", 3, "36", set()),
        ("1425", 3, "3", {"n0", "n1"}),
        ("14", 3, "2356", set()),
        ("1324", 2, "", set()),
        ("13", 2, "246", set()),
        ("12", 6, "", set()),
        ("12", 1, "", set()),
        ("12", 0, "", set()),
    ],
)
def test_a_shared_node_or_rack_is_needless_if_another_one_is_free(
    replicas: str, nodes: int, without: str, shared: set[str]
) -> None:
    assert needless(replicas, nodes=nodes, without=without) == shared
    assert needless(replicas, racks=nodes, without=without) == {
        one.replace("n", "r") for one in shared
    }


@given(st.integers(0, 3), st.integers(0, 4), st.lists(st.integers(1, 6), unique=True, min_size=1))
def test_what_is_shared_needlessly_is_what_a_rebalance_separates(
    racks: int, nodes: int, replicas: list[int]
) -> None:
    """Until nothing is."""
    members = brokers(6, racks, nodes)
    one = partition(0, replicas)
    moves, _ = replica_moves(
        members,
        (one,),
        {one.name: one.replicas},
        {one.name: rated(1.0, 1)},
        read_settings(goals=["RackAwareGoal"]),
    )
    text = "".join(map(str, replicas))
    assert bool(moves) is bool(needless(text, racks, nodes))
    after = [next((it.to_broker for it in moves if it.from_broker == at), at) for at in replicas]
    assert needless("".join(map(str, after)), racks, nodes) == set()
