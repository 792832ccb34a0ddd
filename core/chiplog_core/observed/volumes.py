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
    """Of the largest volume; None while none is bound.

    Some provisioners round up, and a claim may ask in vain: the smaller of the two is what the
    volume was asked to have and has.
    """
    sizes = [
        min(claim.requested, claim.capacity, key=quantity_value)
        for _, claim in sorted(world.claims.items())
        if claim.requested is not None and claim.capacity is not None
    ]
    return max(sizes, key=quantity_value, default=None)


def too_small(claims: Iterable[ClaimState], cluster: BrokerCluster) -> list[ClaimState]:
    """Bound claims that ask for less than the spec says."""
    wanted = quantity_value(cluster.spec.storage.size)
    return [
        claim
        for claim in claims
        if claim.capacity is not None
        and claim.requested is not None
        and quantity_value(claim.requested) < wanted
    ]


def volume_problems(world: World, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """That volumes are to grow which cannot, as long as that can be taken back: no volume has
    reached the size. Otherwise the rest of the spec counts, and the API server says no for each
    claim."""
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
