"""Whether an existing object with the name of one of Chiplog's objects belongs to Chiplog.

The names of objects follow from the name of a BrokerCluster or a Spark application, so an object of
another program may have the same name: Strimzi, too, has a `<cluster>-kafka-bootstrap`. An object
is Chiplog's if its controller is the BrokerCluster or the application. An object without an
existing controller is Chiplog's if its labels say so: a BrokerCluster leaves such objects if it is
deleted and applied again, restored from a backup, or deleted with `--cascade=orphan`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from chiplog_core.naming import labels

ObjectMetadata: TypeAlias = Mapping[str, Any]
"""`metadata` of an object, as the API server sends it."""

REMEDY: Final = (
    "delete it, or choose another name for the object that needs it and create that object again. "
    "The operator changes no object of somebody else, and starts nothing that would use it"
)


class Identity(NamedTuple):
    """An owner without its uid. An object that was deleted and created again has the same identity,
    so an owner with another uid and the same identity does not exist any more."""

    group: str
    kind: str
    name: str


def identity_of(reference: Mapping[str, Any]) -> Identity:
    """The identity of the owner in an entry of `ownerReferences`."""
    group, _, _ = str(reference.get("apiVersion", "")).partition("/")
    return Identity(group, str(reference.get("kind", "")), str(reference.get("name", "")))


def why_not_ours(
    found: ObjectMetadata,
    wanted: ObjectMetadata,
    *,
    label: str,
    other_owners: Collection[Identity] = (),
) -> str:
    """Why the operator must not write to the existing object `found`; empty if that object is the
    operator's own.

    `wanted` is the metadata that the operator would apply, with its one owner. `label` is the label
    whose value names that owner's BrokerCluster or application. `other_owners` are owners that an
    object of the operator may have before or after it has the one in `wanted`.
    """
    (owner,) = wanted["ownerReferences"]
    found_labels = found.get("labels") or {}
    manager = found_labels.get(labels.MANAGED_BY)
    controllers = [
        reference for reference in found.get("ownerReferences") or () if reference.get("controller")
    ]
    if any(controller.get("uid") == owner["uid"] for controller in controllers):
        # Without the label the object is ours, too: somebody removed it, and it is added again.
        is_ours = manager in {None, labels.OPERATOR}
        return "" if is_ours else f"its label {labels.MANAGED_BY} is {manager}"
    # An owner with the same identity and another uid was deleted and created again: its object is
    # adopted if the labels below are right.
    for controller in controllers:
        if identity_of(controller) not in {identity_of(owner), *other_owners}:
            return f"its controller is {controller.get('kind')} {controller.get('name')}"
    if manager != labels.OPERATOR:
        return f"its label {labels.MANAGED_BY} is not {labels.OPERATOR}"
    if found_labels.get(label) != wanted["labels"][label]:
        return f"its label {label} is not {wanted['labels'][label]}"
    return ""


def taken_message(kind: str, name: str, owner_kind: str, why: str) -> str:
    """The message for an `owner_kind` object that needs the name of an object of another owner.
    `why` is from `why_not_ours`."""
    return f"{kind} {name} is not this {owner_kind}'s ({why}): {REMEDY}"
