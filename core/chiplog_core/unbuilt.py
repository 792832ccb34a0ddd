"""What the manifests can already say but Chiplog cannot yet do.

Fields of later versions are in the schemas from the start, where users will write them. Until
the code behind a field exists, whoever sets it is told so by a condition: nothing may pretend.
This is the one place that knows. Building a feature ends with deleting its entry here.
"""

from collections.abc import Mapping
from enum import StrEnum

from chiplog_core.problems import Problem, Reason


class Feature(StrEnum):
    """A thing users can ask for."""

    REPARTITION = "growth by repartitioning"
    TRASH = "the trash for deleted topics"
    MANUAL_PLACEMENT = "placement of replicas by hand"
    ROLL_POLICY = "roll policies"
    HIBERNATION = "hibernation"
    MAINTENANCE = "maintenance of single brokers"
    LOAD_BALANCERS = "listeners behind load balancers"
    CLAIM_DELETION = "deletion of the volumes together with the cluster"
    SCALE_IN = "moving replicas away from a broker"
    REPLICA_MOVES = "moving replicas"


UNBUILT: Mapping[Feature, str] = {
    Feature.REPARTITION: "set it to Append",
    Feature.TRASH: "set it to Delete or Retain",
    Feature.MANUAL_PLACEMENT: "remove it; the operator spreads replicas itself",
    Feature.ROLL_POLICY: "remove it; brokers restart one at a time",
    Feature.HIBERNATION: "set it to false",
    Feature.MAINTENANCE: "remove it",
    Feature.LOAD_BALANCERS: "set it to internal or nodeport",
    Feature.CLAIM_DELETION: "set it to false; after deleting the cluster delete its "
    "PersistentVolumeClaims yourself",
    Feature.SCALE_IN: "set it back; only brokers that hold nothing can be taken away",
    Feature.REPLICA_MOVES: "remove it; a rebalance moves leaderships",
}
"""Each feature that is not built yet, with what to do in its place."""


def unless_built(feature: Feature, field: str) -> tuple[Problem, ...]:
    """The problem with `field`, which asks for `feature`; none once the feature is built."""
    if feature not in UNBUILT:
        return ()
    message = f"asks for {feature}, which is not built yet"
    return (Problem(field, message, UNBUILT[feature], Reason.NOT_SUPPORTED),)
