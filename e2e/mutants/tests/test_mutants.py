"""The driver: its tables name what is there, and it tells a mutant that is noticed from others."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.mutants import reasons, scores
from e2e.mutants.forks import Job, run_all
from e2e.mutants.kept import Found, Kept
from e2e.mutants.mutations import mutants_of
from e2e.mutants.reasons import Change
from e2e.mutants.rooms import ROOMS, ROOT, Room, named
from e2e.mutants.run import judged
from e2e.mutants.scores import Score
from e2e.mutants.seeds import MIXES
from e2e.mutants.unit_tests import BY_LIMIT

HERE = "e2e/mutants/tests"
TINY = Room("tiny", f"{HERE}/tiny.py", (f"{HERE}/tiny_checks.py",), "")


@pytest.mark.parametrize("room", ROOMS, ids=[one.name for one in ROOMS])
def test_a_room_names_what_is_there(room: Room) -> None:
    assert (ROOT / room.path).is_file()
    assert [one for one in room.tests if not (ROOT / one).is_file()] == []
    assert room.mix in {"", *MIXES}
    assert named(room.name) is room


def test_a_room_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="no room is named 'kitchen'; use one of recovery, "):
        named("kitchen")


def test_reasons_name_lines_that_are_there() -> None:
    for room, function, line, becomes in reasons.read():
        text = re.sub(r"\s*\n\s*", " ", function_source(named(room).source, function))
        assert line in text, f"{function} in {room} has no line {line!r} any more"
        assert line != becomes


def function_source(source: str, function: str) -> str:
    """By its name, below that of its class."""
    node: ast.AST = ast.parse(source)
    for name in function.split("."):
        (node,) = (one for one in ast.iter_child_nodes(node) if getattr(one, "name", "") == name)
    return ast.get_source_segment(source, node) or ""


def test_a_reason_stands_there_once_and_says_something(tmp_path: Path) -> None:
    entry = """
[[survivor]]
room = "isr"
function = "f"
line = "a"
becomes = ["b"]
reason = "{}"
"""
    table = tmp_path / "reasons.toml"
    table.write_text(entry.format("why"))
    assert reasons.read(table) == {Change("isr", "f", "a", "b"): "why"}
    for wrong in (entry.format(" "), entry.format("why") * 2):
        table.write_text(wrong)
        with pytest.raises(ValueError, match="twice or has no reason"):
            reasons.read(table)


def test_scores_are_of_rooms_that_are_there() -> None:
    assert [*scores.read()] == [one.name for one in ROOMS if one.name in scores.read()]


def test_what_is_noticed_and_what_cannot_be() -> None:
    """A property, a default of a parameter, and a loop without an end among them."""
    mutants = mutants_of(TINY.source)
    verdicts = dict(judged(TINY, "tests", mutants))
    assert verdicts.keys() == {one.key for one in mutants}
    by_change = {one.after: verdicts[one.key] for one in mutants}
    survivors = [one for one in mutants if not verdicts[one.key]]
    assert [one.after for one in survivors] == [
        "return -self._number if self._number <= 0 else self._number"
    ]
    default = by_change["def __init__(self, number: float, other: float = 6) -> None:"]
    assert default == f"{HERE}/tiny_checks.py::test_from_five_where_nothing_else_is_said"
    assert by_change["number += 1"] == BY_LIMIT
    (survivor,) = survivors
    change = Change("tiny", survivor.function, survivor.before, survivor.after)
    why = {change: "nothing has no direction"}
    assert reasons.without_reason("tiny", survivors, why) == []
    assert reasons.without_reason("tiny", survivors, {}) == survivors
    assert reasons.idle("tiny", survivors, why) == []
    assert reasons.idle("tiny", [], why) == [change]
    # The same lines in another function have no reason by that.
    elsewhere = replace(survivor, function="Number.other")
    assert reasons.without_reason("tiny", [elsewhere], why) == [elsewhere]


def test_texts_for_people_are_left_alone() -> None:
    source = """
def check(number):
    logger.warning("odd", extra={"number": number + 1})
    assert number, "it must be a number"
    if number > 2:
        raise ValueError(f"{number + 1} is too large", "text")
    return number
"""
    changes = [(one.before, one.after) for one in mutants_of(source)]
    assert changes == [
        ("if number > 2:", "if number >= 2:"),
        ("if number > 2:", "if number > 3:"),
    ]


def test_results_are_kept_as_long_as_nothing_changed(tmp_path: Path) -> None:
    mutants = mutants_of(TINY.source)
    kept = Kept(TINY, tmp_path)
    assert kept.undecided(mutants) == mutants
    for one in mutants:
        kept.found[one.key] = Found(by_test=f"{TINY.tests[0]}::test_one")
    kept.found[mutants[0].key] = Found(seeds_tried=True)
    kept.save()
    again = Kept(TINY, tmp_path)
    assert again.undecided(mutants) == []
    assert again.survivors(mutants) == mutants[:1]
    # With other tests only what those noticed that are gone, and what none noticed, is open.
    more = replace(TINY, tests=(*TINY.tests, f"{HERE}/test_mutants.py"))
    assert Kept(more, tmp_path).undecided(mutants) == mutants[:1]
    fewer = replace(TINY, tests=(f"{HERE}/test_mutants.py",))
    assert Kept(fewer, tmp_path).undecided(mutants) == mutants
    other = replace(TINY, path=f"{HERE}/tiny_checks.py")
    assert Kept(other, tmp_path).found == {}


def test_a_job_that_does_not_end_by_itself_has_no_answer() -> None:
    def fail(_: str) -> str:
        raise RuntimeError

    jobs = [Job("fails", fail, 0.0), Job("answers", str.upper, 0.0)]
    assert {one.given: one.text for one in run_all(jobs, 2)} == {
        "fails": None,
        "answers": "ANSWERS",
    }


def test_a_score_is_never_rounded_up() -> None:
    score = Score("isr", mutants=10_000, by_tests=8_998, by_seeds=1)
    assert scores.row(score) == ("isr", "10000", "8998", "1", "1001", "89.9 %")
    assert not score.is_enough
    assert replace(score, by_seeds=2).is_enough
    assert scores.total([score, score]).mutants == 20_000
