"""The size of the brokers' volumes: what they have reached, and what they can become.

Whether volumes can grow is their StorageClass' to say. It is asked before anything is changed, so
that a size that can never be had is refused as a whole, and taken back without a trace.
"""

from collections.abc import Iterable

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.observed.world import ClaimState, World
from chiplog_core.problems import Problem, Reason
from chiplog_core.quantities import Quantity, quantity_value


def size_reached(world: World) -> Quantity | None:
    """The size of the largest volume; None while none is bound.

    A provisioner may round up, and a claim may ask in vain. So the smaller of request and capacity
    counts.
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
    """The problem that volumes must grow but cannot. It is reported only while the spec can be
    reverted, that is while no volume has the new size. After that the rest of the spec is
    applied, and the API server refuses each claim."""
    stuck = [
        claim
        for claim in too_small(world.claims.values(), cluster)
        if claim.storage_class in world.rigid_classes
    ]
    reached = size_reached(world)
    if not stuck or reached is None:
        return ()
    if quantity_value(reached) >= quantity_value(cluster.spec.storage.size):
        return ()
    classes = ", ".join(sorted({claim.storage_class for claim in stuck}))
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
