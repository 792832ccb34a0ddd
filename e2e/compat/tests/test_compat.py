"""Some of Kafka's own tests: what the list has as passed passes."""

from pathlib import Path

import pytest

from e2e.compat import lists
from e2e.compat.brokers import Brokers
from e2e.compat.lists import PASSED, class_of
from e2e.compat.running import SUITES, Runner, classes, read, simple

CHOSEN = frozenset(
    {
        "AdminFenceProducersTest",
        "GlobalKTableEOSIntegrationTest",
        "PlaintextConsumerAssignTest",
        "TransactionsWithMaxInFlightOneTest",
    }
)
"""Of transactions, producers, consumers and Kafka Streams, classes whose tests wait for little."""


@pytest.mark.compat
@pytest.mark.timeout(900)
def test_what_is_listed_as_passed_passes(tmp_path: Path) -> None:
    passing = {
        one.test
        for one in lists.listed().values()
        if one.outcome == PASSED and class_of(one.test) in CHOSEN
    }
    assert set(map(class_of, passing)) == CHOSEN
    chosen = [one for suite in SUITES for one in classes(suite) if simple(one) in CHOSEN]
    results = tmp_path / "results.jsonl"
    with Brokers(tmp_path) as brokers:
        runner = Runner(brokers.address, tmp_path, lists.reasons(lists.SKIPS))
        runner.run(chosen, results, passing)
    found = {one.test: one for one in read(results)}
    failed = [found.get(test, test) for test in sorted(passing)]
    assert [one for one in failed if isinstance(one, str) or one.outcome != PASSED] == []
