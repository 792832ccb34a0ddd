"""Value types of reassignments, which move replicas of a partition to other brokers."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.ids import BrokerId, PartitionEpoch
from chiplog_core.limits import MAX_REPLICAS_PER_PARTITION
from chiplog_core.manifest.constraints import Items

MovingReplicas = Annotated[tuple[BrokerId, ...], Items(MAX_REPLICAS_PER_PARTITION, unique=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A replica that a reassignment has taken out of the partition, and whose data still exists."""

    broker: Annotated[BrokerId, "Id of the broker that still has data of the partition."]
    removable_since: Annotated[
        PartitionEpoch | None,
        "The partitionEpoch at which the operator recorded the proof that every replica has all "
        "committed records. The broker deletes the data only then, and confirms it in "
        "status.removedReplicas. Not set before.",
    ] = None


Leftovers = Annotated[tuple[Leftover, ...], Items(MAX_REPLICAS_PER_PARTITION, key=("broker",))]


def leftovers_on(brokers: tuple[BrokerId, ...]) -> tuple[Leftover, ...]:
    """New leftovers on these brokers, whose data must stay."""
    return tuple(Leftover(broker=broker) for broker in brokers)
