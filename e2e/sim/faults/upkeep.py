"""What those who run a cluster do while replicas move.

They throttle moves, place partitions by hand, rebalance the load, drain brokers, and replace
volumes.
"""

from typing import Final

from e2e.sim.faults import drains, placements, rebalances, rebuilds, throttles
from e2e.sim.faults.stage import Act, Stage

OF_SPECS: Final[dict[str, Act]] = {
    **throttles.OF_SPECS,
    **placements.OF_SPECS,
    **drains.OF_SPECS,
    **rebuilds.OF_SPECS,
    **rebalances.OF_SPECS,
}
"""Those that must not be undone by a restore of etcd: checkers rely on what users asked for."""
ACTS: Final[dict[str, Act]] = {**OF_SPECS, **throttles.ACTS, **drains.ACTS}


def settle(stage: Stage) -> None:
    """Do what only users can do so that the cluster comes to rest. To be called after
    `World.heal`."""
    drains.end(stage)
    throttles.raise_limits(stage)
    placements.give_up_impossible(stage)
