"""The size of the brokers' volumes, and whether they can grow.

The StorageClass says whether volumes can grow. It is checked before anything is changed, so that a
size that cannot be reached is refused before any claim has it, and the spec can simply be reverted.
"""

from collections.abc import Iterable

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.observed.world import ClaimState, World
from chiplog_core.problems import Problem, Reason
from chiplog_core.quantities import Quantity, quantity_value


def size_reached(world: World) -> Quantity | None:
    """The size of the largest volume; None while none is bound.

    The size of a volume is the smaller of request and capacity: a provisioner may round a capacity
    up, and a request may be for a size that the volume does not have yet.
    """
    sizes = [
        min(claim.requested, claim.capacity, key=quantity_value)
        for _, claim in sorted(world.claims.items())
        if claim.requested is not None and claim.capacity is not None
    ]
    return max(sizes, key=quantity_value, default=None)


def too_small(claims: Iterable[ClaimState], cluster: BrokerCluster) -> list[ClaimState]:
    """Bound claims that request less than the spec says."""
    wanted = quantity_value(cluster.spec.storage.size)
    return [
        claim
        for claim in claims
        if claim.capacity is not None
        and claim.requested is not None
        and quantity_value(claim.requested) < wanted
    ]


def volume_problems(world: World, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """The problem that volumes must grow but cannot. It is reported only while no volume has the
    new size, so that the spec can be reverted. After that the rest of the spec is applied, and the
    API server refuses the change of each claim."""
    cannot_grow = [
        claim
        for claim in too_small(world.claims.values(), cluster)
        if claim.storage_class in world.rigid_classes
    ]
    reached = size_reached(world)
    if not cannot_grow or reached is None:
        return ()
    if quantity_value(reached) >= quantity_value(cluster.spec.storage.size):
        return ()
    classes = ", ".join(sorted({claim.storage_class for claim in cannot_grow}))
    return (
        Problem(
            "spec.storage.size",
            f"is {cluster.spec.storage.size}, but StorageClass {classes} does not allow volume "
            "expansion",
            f"set it back to {reached}, or set allowVolumeExpansion of the StorageClass to true if "
            "its provisioner can expand volumes",
            Reason.NOT_SUPPORTED,
        ),
    )
