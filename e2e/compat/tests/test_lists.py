"""The lists of results and reasons, and what the table says."""

from pathlib import Path

import pytest

from e2e.compat import lists
from e2e.compat.lists import FAILED, SKIPPED, class_of
from e2e.compat.properties import adapted
from e2e.compat.running import Result, read


@pytest.mark.parametrize(
    ("test", "pattern", "does_match"),
    [
        ("A#b", "A#b", True),
        ("A#b", "A#*", True),
        ("A#b[1] x", "A#b*", True),
        ("A#bc", "A#b", False),
        ("A#b[1] x", "A#b[?] x", False),
        ("A#b[1] x", "*[1] x", True),
    ],
)
def test_only_a_star_is_special_in_a_pattern(test: str, pattern: str, does_match: bool) -> None:
    assert lists.matches(test, pattern) is does_match


def test_every_failure_in_the_list_has_a_cause() -> None:
    failed = [one for one in lists.listed().values() if one.outcome == FAILED]
    assert not [one.test for one in failed if one.why == lists.UNKNOWN_CAUSE]
    causes = lists.reasons(lists.CAUSES)
    assert [one.why for one in failed] == [lists.reason_for(one.test, causes) for one in failed]


def test_every_skip_in_the_list_has_a_reason() -> None:
    skipped = [one for one in lists.listed().values() if one.outcome == SKIPPED]
    assert not [one.test for one in skipped if not one.why]


@pytest.mark.parametrize("path", [lists.SKIPS, lists.CAUSES])
def test_every_pattern_is_that_of_a_test(path: Path) -> None:
    """Those of classes that are not in the list yet are left out."""
    tests = lists.listed()
    in_list = set(map(class_of, tests))
    patterns = [one for one, _ in lists.reasons(path) if class_of(one) in in_list]
    assert not [one for one in patterns if not any(lists.matches(test, one) for test in tests)]


def test_a_skip_is_explained_without_the_words_of_java() -> None:
    result = Result("A#b", SKIPPED, "org.opentest4j.TestAbortedException: looks into the broker")
    assert lists.why(result, []) == "looks into the broker"
    result = Result("A#b", SKIPPED, "void A.b() ==> share groups: never")
    assert lists.why(result, []) == "share groups: never"
    result = Result("A#b", SKIPPED, "public void A.b() throws java.lang.Exception is @Disabled")
    assert lists.why(result, []) == "disabled by Kafka"


def test_a_line_that_was_cut_off_is_no_result(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text('{"test": "A#b", "outcome": "passed"}\n{"test": "A#c", "outc')
    assert [one.test for one in read(results)] == ["A#b"]


def test_properties_that_are_not_there_are_left_out_and_named() -> None:
    settings, left_out = adapted(
        {"group.max.size": "2", "group.share.max.size": "2", "default.replication.factor": "3"}
    )
    assert settings["group.max.size"] == "2"
    assert settings["default.replication.factor"] == "1"
    assert left_out == {"group.share.max.size"}
