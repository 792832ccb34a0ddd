"""The index of movable replicas finds what looking at every replica finds."""

from random import Random

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Place, domains_of
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.movable import MovableReplicas
from tests.rebalance.worlds import name

Replicas = dict[PartitionName, tuple[BrokerId, ...]]
Places = dict[BrokerId, Place]


def fits(places: Places, replicas: tuple[BrokerId, ...], above: BrokerId, below: BrokerId) -> bool:
    """The rule: not to a broker that has one, nor to the rack or node of another one, unless the
    replica shares its own rack or node already."""
    if above not in replicas or below in replicas:
        return False
    others = [places[one] for one in replicas if one != above]
    racks, nodes = {one.rack for one in others} - {None}, {one.node for one in others} - {None}
    is_in_no_rack = places[below].rack not in racks or places[above].rack in racks
    return is_in_no_rack and (places[below].node not in nodes or places[above].node in nodes)


def plainly_best(
    places: Places,
    replicas: Replicas,
    sizes: dict[PartitionName, int],
    route: tuple[BrokerId, BrokerId],
    twice: int,
    limits: tuple[int, int],
) -> PartitionName | None:
    above, below = route
    found = [
        (replicas[one][0] == above, abs(2 * size - twice), one)
        for one, size in sizes.items()
        if limits[0] <= size <= limits[1] and fits(places, replicas[one], above, below)
    ]
    return min(found)[2] if found else None


@pytest.mark.parametrize("seed", range(40))
def test_the_best_move_is_what_a_plain_search_finds(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - a world is to be the same every time
    ids = [BrokerId(number) for number in range(1, rng.randint(2, 8) + 1)]
    nodes = {name: rng.choice((None, "a", "b", "c")) for name in "uvwxyz"}
    on = {one: rng.choice((None, *nodes)) for one in ids}
    places = {
        one: Place(rng.choice((None, "a")) if node is None else nodes[node], node)
        for one, node in on.items()
    }
    domains = domains_of(places)
    replicas: Replicas = {
        name(index): tuple(rng.sample(ids, rng.randint(1, min(len(ids), 3)))) for index in range(30)
    }
    sizes = {
        one: rng.choice((0, 5, 5, 8, rng.randint(1, 100))) for one in replicas if rng.random() < 0.9
    }
    movable = MovableReplicas(domains, replicas, sizes)
    moves = 0
    for _ in range(200):
        above, below = rng.sample(ids, 2)
        twice, least, most = rng.randint(0, 120), rng.randint(0, 5), rng.randint(10, 100)
        middle = max(least, min(twice // 2, most))
        found = movable.best(above, below, twice=2 * middle, least=least, most=most)
        route = above, below
        assert found == plainly_best(places, replicas, sizes, route, 2 * middle, (least, most))
        held = [sizes[one] for one in sizes if sizes[one] >= least and above in replicas[one]]
        assert movable.smallest(above, least) == min(held, default=float("inf"))
        back = movable.smallest_to(below, above, most)
        assert back == plainly_best(places, replicas, sizes, (below, above), 0, (0, most))
        if found is not None:
            assert movable.closed_to_all(above).isdisjoint(domains[below])
            moves += 1
            replicas[found] = tuple(below if one == above else one for one in replicas[found])
            movable.set_replicas(found, replicas[found])
    assert moves
