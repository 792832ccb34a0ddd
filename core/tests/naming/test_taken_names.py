"""Whose an object is."""

from typing import Any

import pytest

from chiplog_core.naming import labels
from chiplog_core.naming.taken_names import Identity, identity_of, taken_message, why_not_ours

OWNER = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "BrokerCluster",
    "name": "demo",
    "uid": "this",
    "controller": True,
}
LABELS = {labels.MANAGED_BY: labels.OPERATOR, labels.CLUSTER: "demo"}
WANTED = {"labels": LABELS, "ownerReferences": [OWNER]}
FORMER = {**OWNER, "uid": "former"}
NEWER_VERSION = {**FORMER, "apiVersion": "chiplog.dev/v1"}
KAFKA = {**OWNER, "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "uid": "strimzi"}
JOB = {**OWNER, "apiVersion": "batch/v1", "kind": "Job", "name": "run", "uid": "job"}
NO_CONTROLLER = {**KAFKA, "controller": False}
OURS: dict[str, dict[str, Any]] = {
    "as it was made": WANTED,
    "its labels were taken away": {"ownerReferences": [OWNER]},
    "owned by somebody else, too": {"labels": LABELS, "ownerReferences": [NO_CONTROLLER, OWNER]},
    "left by --cascade=orphan": {"labels": LABELS},
    "of the BrokerCluster before": {"labels": LABELS, "ownerReferences": [FORMER]},
    "of that in another version": {"labels": LABELS, "ownerReferences": [NEWER_VERSION]},
    "of an heir": {"labels": LABELS, "ownerReferences": [JOB]},
}
THEIRS: dict[str, tuple[dict[str, Any], str]] = {
    "bare": ({}, "is not chiplog-operator"),
    "with the cluster's label": ({"labels": {labels.CLUSTER: "demo"}}, "is not chiplog-operator"),
    "of another cluster": ({"labels": {**LABELS, labels.CLUSTER: "x"}}, "is not demo"),
    "with another controller": ({"labels": LABELS, "ownerReferences": [KAFKA]}, "Kafka demo"),
    "managed by Helm": (
        {"labels": {**LABELS, labels.MANAGED_BY: "Helm"}, "ownerReferences": [OWNER]},
        "is Helm",
    ),
    "owned by ours, which does not control it": (
        {"ownerReferences": [{**OWNER, "controller": False}]},
        "is not chiplog-operator",
    ),
    "of the one before without labels": ({"ownerReferences": [FORMER]}, "is not chiplog-operator"),
    "with labels that are null": ({"labels": None, "ownerReferences": None}, "is not chiplog"),
}


@pytest.mark.parametrize("found", OURS.values(), ids=OURS)
def test_ours(found: dict[str, Any]) -> None:
    heirs = [Identity("batch", "Job", "run")]
    assert why_not_ours(found, WANTED, label=labels.CLUSTER, other_owners=heirs) == ""


@pytest.mark.parametrize(("found", "why"), THEIRS.values(), ids=THEIRS)
def test_theirs(found: dict[str, Any], why: str) -> None:
    assert why in why_not_ours(found, WANTED, label=labels.CLUSTER)


def test_an_heir_is_who_was_named() -> None:
    found = {"labels": LABELS, "ownerReferences": [JOB]}
    assert "Job run" in why_not_ours(found, WANTED, label=labels.CLUSTER)
    assert identity_of(JOB) == Identity("batch", "Job", "run")


def test_who_needs_the_name_reads_why_it_is_taken_and_what_to_do() -> None:
    message = taken_message("Service", "demo-bootstrap", "BrokerCluster", "it has no owner")

    assert message.startswith(
        "Service demo-bootstrap is not this BrokerCluster's (it has no owner): delete it, or "
        "choose another name for the object that needs it"
    )
