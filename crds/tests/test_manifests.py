"""The examples are good, the invalid ones are not, and program and definitions agree on it."""

from pathlib import Path

import pytest

from chiplog_core.problems import Reason
from crds.schema.kinds import DEFINITIONS
from crds.tests.files import (
    EXAMPLES,
    INVALID,
    ORDERS,
    definition_of,
    invalid_file,
    manifests,
    model_of,
    one_manifest,
)
from crds.tests.judge import problems_of
from crds.tests.structural import violations

NOT_BUILT = "# Not built yet: "

JUDGED_BY_KUBERNETES = {
    # Names of objects are checked by the API server for every kind.
    "topic-object-name-invalid",
    "topic-object-name-too-long",
    # Who may change internal objects, and how, is settled by RBAC and the rules of the planner.
    "broker-admitted-without-new-session",
    "broker-changes-its-id",
    "broker-returns-from-retirement",
    "broker-session-decreases",
    "map-current-without-generation",
    "map-leader-outside-isr",
    "map-removing-all-replicas",
    "map-topic-changed",
}
"""Invalid manifests in which the program's own reading and rules find nothing wrong."""


def by_name(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=path.stem) for path in sorted(paths)]


@pytest.mark.parametrize("path", by_name(EXAMPLES))
def test_an_example_fits_its_definition(path: Path) -> None:
    for manifest in manifests(path):
        assert list(violations(manifest, definition_of(manifest).schema())) == []


@pytest.mark.parametrize("path", by_name(EXAMPLES))
def test_an_example_is_read_and_written_without_loss(path: Path) -> None:
    for manifest in manifests(path):
        value = model_of(manifest).from_manifest(manifest)

        assert type(value).from_manifest(value.to_manifest()) == value


@pytest.mark.parametrize("path", by_name(EXAMPLES))
def test_an_example_says_what_is_not_built_yet(path: Path) -> None:
    problems = [problem for manifest in manifests(path) for problem in problems_of(manifest, None)]

    assert {problem.reason for problem in problems} <= {Reason.NOT_SUPPORTED}
    assert bool(problems) == (NOT_BUILT in path.read_text()), problems


@pytest.mark.parametrize("path", by_name(EXAMPLES))
def test_an_example_begins_with_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")


def test_the_first_example_is_a_cluster_of_three_with_a_topic_of_six() -> None:
    cluster, topic = manifests(ORDERS)

    assert cluster["spec"]["replicas"] == 3
    assert (topic["metadata"]["name"], topic["spec"]["partitions"]) == ("orders", 6)


@pytest.mark.parametrize("path", by_name(INVALID))
def test_an_invalid_manifest_says_what_it_must_get(path: Path) -> None:
    file = invalid_file(path)

    assert len(file.expect) >= 15
    assert file.manifest["kind"] in {definition.model.KIND.kind for definition in DEFINITIONS}


@pytest.mark.parametrize(
    "path", by_name([path for path in INVALID if path.stem not in JUDGED_BY_KUBERNETES])
)
def test_the_program_refuses_an_invalid_manifest_too(path: Path) -> None:
    file = invalid_file(path)
    before = None if file.before is None else one_manifest(file.before)

    found = problems_of(file.manifest, before)

    assert [problem for problem in found if problem.reason is not Reason.NOT_SUPPORTED] or any(
        "cannot" in problem.message for problem in found
    )


@pytest.mark.parametrize(
    "path", by_name([path for path in INVALID if invalid_file(path).before is not None])
)
def test_what_is_changed_was_valid_before(path: Path) -> None:
    file = invalid_file(path)
    assert file.before is not None
    before = one_manifest(file.before)

    assert list(violations(before, definition_of(before).schema())) == []
    assert {problem.reason for problem in problems_of(before, None)} <= {Reason.NOT_SUPPORTED}
    assert before["metadata"] == file.manifest["metadata"]


def test_every_judgement_left_to_kubernetes_is_needed() -> None:
    stems = {path.stem for path in INVALID}

    assert stems >= JUDGED_BY_KUBERNETES
