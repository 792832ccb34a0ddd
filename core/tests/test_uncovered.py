"""What is said of lines and branches that no test reaches."""

import pytest

import uncovered
from uncovered import Key, differences, find_places, read_list

MODULE = "groups/reset.py"
SOURCE = """\
def found(value: int) -> int:
    if value > 7:
        raise ValueError(
            "too many"
        )
    match value:
        case 1:
            return 2
    return 3
""".splitlines()
MATCH = Key(MODULE, "match value:")
RAISE = Key(MODULE, "raise ValueError(")


def measured(*lines: int, branches: tuple[tuple[int, int], ...] = ()) -> dict[str, object]:
    return {"missing_lines": list(lines), "missing_branches": [list(one) for one in branches]}


def test_lines_that_follow_each_other_are_one_place_with_the_branch_to_them() -> None:
    found = find_places(MODULE, SOURCE, measured(3, 4, branches=((2, 3),)))

    assert found == {RAISE: [3]}


def test_a_branch_that_leads_to_no_line_is_named_by_where_it_begins() -> None:
    to_a_line = find_places(MODULE, SOURCE, measured(branches=((6, 9),)))
    to_the_end = find_places(MODULE, SOURCE, measured(branches=((6, 0),)))

    assert to_a_line == to_the_end == {MATCH: [6]}


def test_what_lies_apart_is_apart() -> None:
    found = find_places(MODULE, SOURCE, measured(3, 9, branches=((2, 3), (6, 7))))

    assert found == {RAISE: [3], MATCH: [6], Key(MODULE, "return 3"): [9]}


def test_a_module_that_is_reached_whole_has_no_places() -> None:
    assert find_places(MODULE, SOURCE, measured()) == {}


def test_what_is_listed_is_no_difference() -> None:
    assert list(differences({MATCH: [6]}, {MATCH: 1})) == []
    assert list(differences({MATCH: [6, 20]}, {MATCH: 2})) == []


def test_a_place_that_is_not_listed_is_named_with_module_and_line() -> None:
    assert list(differences({RAISE: [3], MATCH: [6]}, {MATCH: 1})) == [
        "groups/reset.py:3: no test of core reaches all of: raise ValueError("
    ]


def test_one_entry_is_for_one_place() -> None:
    assert list(differences({MATCH: [6, 20]}, {MATCH: 1})) == [
        "groups/reset.py:6, 20: no test of core reaches all of: match value:"
    ]


def test_a_listed_place_that_tests_reach_now_has_to_go_from_the_list() -> None:
    now = "groups/reset.py: tests reach this now, remove it from uncovered.toml: match value:"

    assert list(differences({}, {MATCH: 1})) == [now]
    assert list(differences({MATCH: [6]}, {MATCH: 2})) == [now]


def test_the_list_is_by_module() -> None:
    text = f'"{MODULE}" = [{{ line = "match value:", reason = "x" }}]'

    assert read_list(text) == {MATCH: 1}
    assert read_list("") == {}


def test_a_place_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="'match value:' has no reason"):
        read_list(f'"{MODULE}" = [{{ line = "match value:", reason = " " }}]')


def test_every_listed_line_stands_in_its_module() -> None:
    for (module, text), count in read_list(uncovered.LIST.read_text()).items():
        lines = (uncovered.PACKAGE / module).read_text().splitlines()
        assert [line.strip() for line in lines].count(text) >= count, (module, text)
