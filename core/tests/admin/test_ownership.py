"""Who owns a field, by the book that the API server keeps."""

import json

import pytest

from chiplog_core.admin.ownership import (
    LAST_APPLIED,
    MAX_APPLIED_LENGTH,
    SPEC,
    Path,
    foreign_managers,
    set_by_clients_only,
)
from chiplog_core.naming import labels

BY_CLIENTS: dict[str, object] = {f"f:key-{number}": {} for number in range(200)}

PARTITIONS: Path = ("spec", "partitions")
RETENTION: Path = ("spec", "config", "retention.ms")

# After `kubectl apply`, a GitOps tool and our own writes, in the form the API server gives it.
BOOK: list[object] = [
    {
        "manager": "kubectl-client-side-apply",
        "operation": "Update",
        "apiVersion": "chiplog.dev/v1alpha1",
        "time": "2026-01-31T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:annotations": {
                    ".": {},
                    "f:kubectl.kubernetes.io/last-applied-configuration": {},
                }
            },
            "f:spec": {
                ".": {},
                "f:clusterRef": {".": {}, "f:name": {}},
                "f:config": {".": {}, "f:retention.ms": {}},
                "f:partitions": {},
            },
        },
    },
    {
        "manager": "argocd-controller",
        "operation": "Apply",
        "fieldsV1": {
            "f:spec": {
                "f:config": {"f:retention.ms": {}, "f:segment.ms": {}},
                "f:assignments": {
                    'k:{"partition":0}': {".": {}, "f:partition": {}, "f:replicas": {}}
                },
            }
        },
    },
    {
        "manager": labels.KAFKA_ADMIN,
        "operation": "Update",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:config": {"f:segment.bytes": {}}}},
    },
    {
        "manager": labels.OPERATOR,
        "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, 'v:"chiplog.dev/topic"': {}}}},
    },
    {
        "manager": "someone",
        "operation": "Update",
        "subresource": "status",
        "fieldsV1": {"f:spec": {"f:replicas": {}}, "f:status": {"f:conditions": {}}},
    },
]


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        (PARTITIONS, ("kubectl-client-side-apply",)),
        (RETENTION, ("argocd-controller", "kubectl-client-side-apply")),
        (("spec", "config", "segment.ms"), ("argocd-controller",)),
        (("spec", "config", "segment.bytes"), ()),
        (("spec", "config", "retention"), ()),
        (("spec", "replicas"), ()),
        (("spec", "assignments"), ("argocd-controller",)),
        (("spec", "clusterRef", "name"), ("kubectl-client-side-apply",)),
        (("metadata", "finalizers"), ()),
        (SPEC, ("argocd-controller", "kubectl-client-side-apply")),
    ],
)
def test_the_managers_of_a_field_are_all_but_our_own(path: Path, managers: tuple[str, ...]) -> None:
    assert foreign_managers(BOOK, path, {}) == managers


def test_a_topic_of_admin_clients_alone_is_nobody_elses() -> None:
    assert foreign_managers(BOOK[2:], SPEC, {}) == ()


@pytest.mark.parametrize(
    "book", [None, [], "x", ["x"], [{}], [{"manager": "m", "fieldsV1": {"f:spec": None}}]]
)
def test_a_book_that_says_nothing_names_nobody(book: object) -> None:
    assert foreign_managers(book, PARTITIONS, {}) == ()


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        (RETENTION, ("kubectl-client-side-apply",)),
        (("spec", "config", "segment.ms"), ()),
        (PARTITIONS, ()),
        (SPEC, ("kubectl-client-side-apply",)),
    ],
)
def test_a_field_applied_with_the_value_it_had_is_kubectls(
    path: Path, managers: tuple[str, ...]
) -> None:
    # The API server has it as the admin clients', who set the value.
    applied = {LAST_APPLIED: '{"spec":{"clusterRef":{"name":"a"},"config":{"retention.ms":5}}}'}
    assert foreign_managers(BOOK[2:], path, applied) == managers


@pytest.mark.parametrize("applied", ["", "{", "[" * 100_000])
def test_who_applies_something_unknown_may_own_everything(applied: str) -> None:
    assert foreign_managers([], PARTITIONS, {LAST_APPLIED: applied}) != ()


def of_clients(*fields: str) -> dict[str, object]:
    config: dict[str, object] = {f"f:{name}": {} for name in fields}
    return {"manager": labels.KAFKA_ADMIN, "fieldsV1": {"f:spec": {"f:config": config}}}


def test_what_only_clients_set_on_an_object_of_others_is_named() -> None:
    assert set_by_clients_only(BOOK, {}) == ("spec.config[segment.bytes]", "spec.replicas")


def test_a_field_that_a_manifest_names_too_is_not() -> None:
    book = [BOOK[0], of_clients("retention.ms", "segment.bytes")]

    assert set_by_clients_only(book, {}) == ("spec.config[segment.bytes]",)
    applied = {LAST_APPLIED: '{"spec": {"config": {"segment.bytes": "1"}}}'}
    assert set_by_clients_only(book, applied) == ()


def test_a_topic_that_a_client_made_is_its_own() -> None:
    made = {
        "manager": labels.KAFKA_ADMIN,
        "fieldsV1": {"f:spec": {"f:clusterRef": {"f:name": {}}, "f:partitions": {}}},
    }
    edited = {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:config": {"f:a": {}}}}}

    assert set_by_clients_only([made, edited], {}) == ()
    assert set_by_clients_only(None, {}) == ()


def test_the_applied_manifest_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every Topic, in every plan."""
    read: list[str] = []
    loads = json.loads

    def counted(text: str) -> object:
        read.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    book = [{"manager": labels.KAFKA_ADMIN, "fieldsV1": {"f:spec": {"f:config": BY_CLIENTS}}}]
    applied = json.dumps({"spec": {"clusterRef": {"name": "demo"}}})

    assert len(set_by_clients_only(book, {LAST_APPLIED: applied})) == len(BY_CLIENTS)
    assert len(read) == 1

    too_long = applied + " " * MAX_APPLIED_LENGTH
    assert set_by_clients_only(book, {LAST_APPLIED: too_long}) == ()
    assert foreign_managers(book, PARTITIONS, {LAST_APPLIED: too_long})
    assert len(read) == 1, "it is not read at all"
