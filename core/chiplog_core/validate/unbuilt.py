"""Features that manifests can ask for, but that are not built yet.

The schemas have the fields of later versions from the start. Until the code behind a field exists,
a condition reports to the user who sets it that it has no effect. All such features are listed
here; when one is built, its entry must be removed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chiplog_core.naming import api
from chiplog_core.problems import Problem, Reason


class Feature(StrEnum):
    """A feature that users can ask for, with its name in messages."""

    REPARTITION = "growth by repartitioning"
    TRASH = "the trash for deleted topics"
    HIBERNATION = "hibernation"
    REMOVE_DISKS = "several data directories on a broker"


UNBUILT: Mapping[Feature, str] = {
    Feature.REPARTITION: "set spec.growth.strategy to Append",
    Feature.TRASH: "set spec.deletionPolicy to Delete or Retain",
    Feature.HIBERNATION: "set it to false",
    Feature.REMOVE_DISKS: "set it to remove-brokers",
}
"""Each feature that is not built yet, with what to do instead."""


def unless_built(feature: Feature, field: str) -> tuple[Problem, ...]:
    """The problem with `field`, which asks for `feature`; none if the feature is built."""
    if feature not in UNBUILT:
        return ()
    message = f"asks for {feature}, which is not built yet"
    return (Problem(field, message, UNBUILT[feature], Reason.NOT_SUPPORTED),)


@dataclass(frozen=True, slots=True)
class Field:
    """A field with which users ask for a feature."""

    kind: api.ResourceKind
    path: str
    """Like `spec.growth.strategy`, with `[]` for the items of a list."""
    value: str = ""
    """The value of the field that is not built; empty if the whole field is not built."""


FIELDS: Mapping[Feature, tuple[Field, ...]] = {
    Feature.REPARTITION: (
        Field(api.TOPIC, "spec.growth.strategy", "Repartition"),
        Field(api.TOPIC, "spec.growth.partitioner"),
        Field(api.TOPIC, "spec.growth.maxReplay"),
    ),
    Feature.TRASH: (
        Field(api.TOPIC, "spec.deletionPolicy", "Trash"),
        Field(api.TOPIC, "spec.trashTTL"),
    ),
    Feature.HIBERNATION: (Field(api.BROKER_CLUSTER, "spec.hibernate", "true"),),
    Feature.REMOVE_DISKS: (Field(api.REBALANCE, "spec.mode", "remove-disks"),),
}
"""The fields with which users ask for each feature. `kubectl explain` says for each that it is not
built yet."""


def is_built(feature: Feature) -> bool:
    """Whether this version of Chiplog has the feature."""
    return feature not in UNBUILT


def notices(kind: api.ResourceKind) -> Iterator[tuple[str, str]]:
    """For each field of the kind that is not built yet: its path, and the sentence that is added to
    its description in the CustomResourceDefinition."""
    for feature, remedy in UNBUILT.items():
        for field in FIELDS[feature]:
            if field.kind == kind:
                subject = f"{field.value} is not" if field.value else "Not"
                yield field.path, f"{subject} built yet: {remedy}."
