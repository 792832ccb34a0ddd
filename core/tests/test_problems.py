"""Problems say where, what and what to do."""

import pytest

from chiplog_core.problems import InvalidManifest, Problem, Reason, nearest
from chiplog_core.validate.unbuilt import UNBUILT, Feature, unless_built


def test_a_problem_reads_as_a_sentence() -> None:
    problem = Problem("spec.partitions", "is 0", "set it to 1 or more")

    assert str(problem) == "spec.partitions is 0: set it to 1 or more"
    assert problem.reason is Reason.INVALID_CONFIG


def test_an_invalid_manifest_carries_every_problem() -> None:
    problems = [Problem("spec.a", "is missing", "add it"), Problem("spec.b", "is 3", "set it to 2")]

    error = InvalidManifest(problems)

    assert error.problems == tuple(problems)
    assert str(error) == "spec.a is missing: add it; spec.b is 3: set it to 2"


def test_the_nearest_word() -> None:
    assert nearest("retention.mss", ["retention.ms", "segment.ms"]) == "retention.ms"
    assert nearest("colour", ["retention.ms", "segment.ms"]) is None


def test_what_is_not_built_is_not_supported() -> None:
    (problem,) = unless_built(Feature.TRASH, "spec.deletionPolicy")

    assert problem.reason is Reason.NOT_SUPPORTED
    assert str(problem) == (
        "spec.deletionPolicy asks for the trash for deleted topics, which is not built yet: "
        "set spec.deletionPolicy to Delete or Retain"
    )


def test_what_is_built_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chiplog_core.validate.unbuilt.UNBUILT",
        {feature: remedy for feature, remedy in UNBUILT.items() if feature is not Feature.TRASH},
    )

    assert unless_built(Feature.TRASH, "spec.deletionPolicy") == ()
