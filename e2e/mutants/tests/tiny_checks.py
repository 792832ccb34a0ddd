"""The tests of `tiny`; `test_mutants` runs them. pytest does not find them by itself."""

import pytest

from e2e.mutants.tests.tiny import Distance, count_down


@pytest.mark.parametrize("number", [-3, 0, 0.5, 3])
def test_a_distance_is_never_negative(number: float) -> None:
    assert Distance(number, 0).size == abs(number)


def test_from_five_where_nothing_else_is_said() -> None:
    assert Distance(5).size == 0


def test_counting_down() -> None:
    assert [count_down(0), count_down(3)] == [0, 3]
