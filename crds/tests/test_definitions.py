"""The definitions: up to date, bounded everywhere, and useful to `kubectl explain`."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds import generate
from crds.generate import FOLDER, drifted, main, write
from crds.schema.definition import Column, Definition
from crds.schema.kinds import DEFINITIONS

KINDS = [pytest.param(definition, id=definition.model.KIND.kind) for definition in DEFINITIONS]
Schema = dict[str, Any]
LONGEST_TEXT, COST_LIMIT = 3 << 20, 100_000_000
"""Of the API server: bytes of a request, and the estimated cost of all rules of a kind."""


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema inside a schema, with its path."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for inside in ("items", "additionalProperties"):
        if inside in schema:
            yield from nodes(schema[inside], f"{path}[]")


def own_nodes(definition: Definition) -> list[tuple[str, Schema]]:
    """Those that are ours to describe and to bound."""
    given = (".apiVersion", ".kind", ".metadata")
    return [(path, node) for path, node in nodes(definition.schema()) if path not in given]


def test_the_files_are_what_the_source_says() -> None:
    assert drifted(FOLDER) == []


def test_what_has_drifted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)

    assert main([]) == 0
    assert main(["--check"]) == 0

    (tmp_path / "topics.chiplog.dev.yaml").write_text("something else")
    (tmp_path / "brokers.chiplog.dev.yaml").unlink()
    (tmp_path / "others.chiplog.dev.yaml").write_text("of no definition")
    assert main(["--check"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{name}.chiplog.dev.yaml is not what crds/generate.py writes: run it"
        for name in ("topics", "brokers", "others")
    ]


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path)

    assert drifted(tmp_path) == []


@pytest.mark.parametrize("definition", KINDS)
def test_every_field_is_described(definition: Definition) -> None:
    for path, node in own_nodes(definition):
        if path and not path.endswith("[]"):
            assert len(node.get("description", "")) >= 10, path


@pytest.mark.parametrize("definition", KINDS)
def test_every_text_list_and_map_is_bounded(definition: Definition) -> None:
    for path, node in own_nodes(definition):
        match node.get("type"):
            case "string":
                assert {"maxLength", "enum", "format"} & set(node), path
            case "array":
                assert "maxItems" in node, path
                assert "x-kubernetes-list-type" in node, path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path
            case "integer":
                assert "format" in node, path


@pytest.mark.parametrize("definition", KINDS)
def test_only_kafka_configuration_is_open(definition: Definition) -> None:
    for path, node in own_nodes(definition):
        if "x-kubernetes-preserve-unknown-fields" in node:
            assert path == ".spec.config" or path.startswith(".spec.config."), path


@pytest.mark.parametrize("definition", KINDS)
def test_every_rule_says_what_to_do(definition: Definition) -> None:
    for path, node in own_nodes(definition):
        for rule in node.get("x-kubernetes-validations", ()):
            assert re.search("must|cannot|:", rule["message"]), f"{path}: {rule['message']}"
            assert len(rule["message"]) <= 250, path


@pytest.mark.parametrize("definition", KINDS)
def test_the_rules_of_all_configuration_keys_are_cheap_together(definition: Definition) -> None:
    """As the API server estimates them: it takes a number or text for a text of three megabytes,
    whatever its `maxLength` is, and refuses a kind whose rules cost too much."""
    cost = 0
    for _, node in own_nodes(definition):
        for rule in node.get("x-kubernetes-validations", ()):
            found = re.search(r"matches\(r?'(.*)'\)", rule["rule"])
            if found and "x-kubernetes-int-or-string" in node:
                cost += LONGEST_TEXT // 10 * math.ceil(len(found[1]) / 4)
    assert cost < COST_LIMIT * 8 // 10


@pytest.mark.parametrize("definition", KINDS)
def test_rules_blame_fields_that_exist(definition: Definition) -> None:
    paths = {path for path, _ in nodes(definition.schema())}

    for path, node in own_nodes(definition):
        for rule in node.get("x-kubernetes-validations", ()):
            assert path + rule.get("fieldPath", "") in paths


@pytest.mark.parametrize("definition", KINDS)
def test_columns_show_fields_that_exist(definition: Definition) -> None:
    paths = {path for path, _ in nodes(definition.schema())}

    def field(column: Column) -> str:
        return re.sub(r"\[[^\]]*\]", "[]", column.path)

    for column in definition.columns:
        assert column.path == ".metadata.creationTimestamp" or field(column) in paths, column.name
    assert len({column.name for column in definition.columns}) == len(definition.columns)


def test_kinds_have_the_names_users_know() -> None:
    names = {
        definition.model.KIND.kind: definition.to_manifest()["spec"]["names"]
        for definition in DEFINITIONS
    }

    assert names["Topic"] == {
        "kind": "Topic",
        "listKind": "TopicList",
        "plural": "topics",
        "singular": "topic",
        "shortNames": ["ct"],
        "categories": ["chiplog"],
    }
    assert {kind: name["shortNames"] for kind, name in names.items()} == {
        "BrokerCluster": ["cbc"],
        "Topic": ["ct"],
        "ConsumerGroup": ["ccg"],
        "User": ["cu"],
        "Verification": ["ver"],
        "Rebalance": ["reb"],
        "Broker": ["brk"],
        "PartitionMap": ["pmap"],
        "AccessList": ["acl"],
    }


# Where two API groups share a short name, kubectl takes the group that it lists first, so an
# installation of Chiplog could change what another product's users get. From `kubectl
# api-resources` of Kubernetes, Strimzi, OpenShift and Antrea.
TAKEN = (
    "cm cs csr deploy ds ep ev hpa ing limits netpol no ns pc pdb po pv pvc quota rc rs sa sc sts"
    " svc crd crds k kb kc kctr kmm kmm2 knp kr kt ku sps bc cg dc is istag"
)


def test_no_short_name_is_one_that_others_use() -> None:
    short = {definition.model.KIND.short_name for definition in DEFINITIONS}

    assert short.isdisjoint(TAKEN.split())


def test_objects_that_name_a_cluster_are_selected_by_it() -> None:
    """`kubectl get ct --field-selector spec.clusterRef.name=orders`."""
    versions = {
        one.model.KIND.kind: one.to_manifest()["spec"]["versions"][0] for one in DEFINITIONS
    }
    paths = [".spec.clusterRef.name", ".spec.clusterRef.namespace"]
    by_cluster = {
        kind: [field["jsonPath"] for field in version.get("selectableFields", [])]
        for kind, version in versions.items()
    }
    names_one = ("Topic", "ConsumerGroup", "User", "Verification", "Rebalance")
    assert by_cluster == {kind: paths if kind in names_one else [] for kind in versions}


def subresources(kind: str) -> dict[str, Any]:
    for definition in DEFINITIONS:
        if definition.model.KIND.kind == kind:
            version = definition.to_manifest()["spec"]["versions"][0]
            found: dict[str, Any] = version.get("subresources", {})
            return found
    raise AssertionError(kind)


def test_statuses_are_written_apart_and_a_map_has_none() -> None:
    assert subresources("Topic") == {"status": {}}
    assert subresources("Broker") == {"status": {}}
    assert subresources("PartitionMap") == {}


def test_a_cluster_can_be_scaled() -> None:
    assert subresources("BrokerCluster")["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
