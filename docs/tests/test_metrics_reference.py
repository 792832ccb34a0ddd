"""What the metrics' page must have, whatever else is on it."""

import pytest

from docs import metrics_reference


@pytest.fixture(scope="module")
def page() -> str:
    return metrics_reference.page()


@pytest.mark.parametrize(
    "row",
    [
        # Of a collector, with a label and without.
        "| `kafka_broker_info` | gauge | `id`, `address` | ",
        "| `kafka_server_replicamanager_isrshrinks_total` | counter |  | ",
        # Of a series of its own.
        "| `kafka_topic_partition_leader` | gauge | `topic`, `partition` | ",
        # Of the client's own counter and histogram that nothing has been counted with.
        "| `chiplog_operator_api_requests_total` | counter | `verb`, `resource`, `code` | ",
        "| `chiplog_operator_queue_seconds` | histogram |  | ",
    ],
)
def test_a_metric_of_each_sort_is_there_with_its_labels(page: str, row: str) -> None:
    assert page.count(row) == 1


def test_what_every_process_has_is_not_listed(page: str) -> None:
    assert "| `process_" not in page
