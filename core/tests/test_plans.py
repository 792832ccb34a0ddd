"""The long form of the planner's tests, at a small size."""

import pytest
from rich.console import Console

from plans import Row, Took, every_prefix, table


def test_another_operator_goes_on_after_every_prefix() -> None:
    row = every_prefix(3, 5)

    assert int(row.pending.split()[0]) > 0
    assert 0 < row.slowest.cpu_s < row.limit_s


@pytest.mark.parametrize(("cpu_s", "is_in_time"), [(1.9, True), (2.1, False)])
def test_a_plan_that_takes_too_long_is_seen(cpu_s: float, is_in_time: bool) -> None:
    row = Row("one world", "2 moving", 3, Took(wall_s=9.0, cpu_s=cpu_s), 2.0)
    console = Console(width=120, record=True, file=None)
    with console.capture() as shown:
        console.print(table("Plans", [row], "pending"))

    assert row.is_in_time is is_in_time
    assert f"{cpu_s:.3f} s" in shown.get()
    assert "at most 2 s" in shown.get()
