"""Whose an object is that has the name of one of ours.

Names of Kubernetes objects follow from the name of a BrokerCluster or a Spark application, so
somebody else's object may have one of them: `<cluster>-kafka-bootstrap` is Strimzi's, too. It is
ours where its controller is ours. One without a living controller is ours where its labels say so:
that is what a BrokerCluster leaves that is deleted and applied again, restored from a backup, or
deleted with `--cascade=orphan`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from chiplog_core.naming import labels

ObjectMetadata: TypeAlias = Mapping[str, Any]
"""`metadata` of an object, as the API server sends it."""

REMEDY: Final = (
    "rename or delete it, or delete this object and choose another name. The operator did not "
    "change it, and starts nothing that would use it"
)


class Identity(NamedTuple):
    """An owner by what survives it: where two have the same, the older one is gone."""

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
    """Why the operator may not write to an existing object; empty if the object is its own.

    `wanted` is the metadata that the operator would apply, with its one owner. `label` is the label
    whose value names the object that it belongs to. `other_owners` are former owners of our
    objects.
    """
    (owner,) = wanted["ownerReferences"]
    has = found.get("labels") or {}
    manager = has.get(labels.MANAGED_BY)
    controllers = [
        reference for reference in found.get("ownerReferences") or () if reference.get("controller")
    ]
    if any(controller.get("uid") == owner["uid"] for controller in controllers):
        # A label that somebody removed is added again.
        is_ours = manager in {None, labels.OPERATOR}
        return "" if is_ours else f"its label {labels.MANAGED_BY} is {manager}"
    for controller in controllers:
        if identity_of(controller) not in {identity_of(owner), *other_owners}:
            return f"its controller is {controller.get('kind')} {controller.get('name')}"
    if manager != labels.OPERATOR:
        return f"its label {labels.MANAGED_BY} is not {labels.OPERATOR}"
    if has.get(label) != wanted["labels"][label]:
        return f"its label {label} is not {wanted['labels'][label]}"
    return ""


def taken_message(kind: str, name: str, owner_kind: str, why: str) -> str:
    """The message for the object that needs a name which another object has."""
    return f"{kind} {name} is not this {owner_kind}'s ({why}): {REMEDY}"
