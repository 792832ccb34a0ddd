"""When a launcher ends an application whose job has not kept its time limit."""

import pytest

from chiplog_core.durations import Duration
from chiplog_core.spark.runs import GRACE, deadline_s


@pytest.mark.parametrize(
    ("limit", "seconds"), [("1h", 3_600), ("1500ms", 2), ("1ms", 1), ("0s", 0)]
)
def test_a_deadline_is_the_time_limit_in_whole_seconds_and_the_grace(
    limit: str, seconds: int
) -> None:
    assert deadline_s(Duration(limit)) == seconds + GRACE.total_seconds()
