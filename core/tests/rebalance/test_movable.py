"""The index of movable replicas finds what looking at every replica finds."""

from random import Random

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.movable import MovableReplicas, Racks
from tests.rebalance.worlds import name

Replicas = dict[PartitionName, tuple[BrokerId, ...]]


def fits(racks: Racks, replicas: tuple[BrokerId, ...], above: BrokerId, below: BrokerId) -> bool:
    """The rule: not to a broker that has one, nor to the rack of another one, unless the replica
    shares its rack already."""
    others = {racks[one] for one in replicas if one != above} - {None}
    is_apart = racks[below] not in others or racks[above] in others
    return above in replicas and below not in replicas and is_apart


def plainly_best(
    racks: Racks,
    replicas: Replicas,
    sizes: dict[PartitionName, int],
    route: tuple[BrokerId, BrokerId],
    gap: int,
) -> PartitionName | None:
    above, below = route
    found = [
        (replicas[one][0] == above, abs(2 * size - gap), one)
        for one, size in sizes.items()
        if 0 < 10 * size <= 9 * gap and fits(racks, replicas[one], above, below)
    ]
    return min(found)[2] if found else None


@pytest.mark.parametrize("seed", range(40))
def test_the_best_move_is_what_a_plain_search_finds(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - a world is to be the same every time
    ids = [BrokerId(number) for number in range(1, rng.randint(2, 8) + 1)]
    racks = {one: rng.choice((None, "a", "b", "c")) for one in ids}
    replicas: Replicas = {
        name(index): tuple(rng.sample(ids, rng.randint(1, min(len(ids), 3)))) for index in range(30)
    }
    sizes = {
        one: rng.choice((0, 5, 5, 8, rng.randint(1, 100))) for one in replicas if rng.random() < 0.9
    }
    movable = MovableReplicas(racks, replicas, sizes)
    moves = 0
    for _ in range(200):
        above, below = rng.sample(ids, 2)
        gap = rng.randint(1, 120)
        found = movable.best(above, below, gap)
        assert found == plainly_best(racks, replicas, sizes, (above, below), gap)
        held = [sizes[one] for one in sizes if sizes[one] and above in replicas[one]]
        assert movable.smallest(above) == min(held, default=float("inf"))
        if found is not None:
            assert racks[below] not in movable.racks_closed_to_all(above)
            moves += 1
            replicas[found] = tuple(below if one == above else one for one in replicas[found])
            movable.set_replicas(found, replicas[found])
    assert moves
