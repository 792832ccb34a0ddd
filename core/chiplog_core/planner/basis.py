"""The versions of the objects from which a plan was made, for steps that cannot be undone."""

from chiplog_core.model.actions import Basis
from chiplog_core.observed.world import World


def basis_of(world: World) -> Basis:
    """The versions of all maps and brokers in the world."""
    return Basis(
        cluster_uid=world.metadata.uid,
        maps={one.metadata.name: one.metadata.resource_version for one in world.maps.values()},
        brokers={
            one.metadata.name: one.metadata.resource_version for one in world.brokers.values()
        },
    )
