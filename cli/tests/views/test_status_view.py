"""A cluster as its brokers tell of it."""

from dataclasses import replace

from chiplog_cli import status_view
from tests.views.facts import CLUSTER, ORDERS, SMALL


def test_what_is_shown() -> None:
    assert status_view.text(CLUSTER, [ORDERS, SMALL]) == (
        "Cluster id: c-1\n"
        "Topics:     2\n"
        "Partitions: 3 (1 offline, 1 under-replicated)\n"
        "\n"
        "BROKER  ADDRESS  RACK  LEADERS  REPLICAS\n"
        "1       b1:9092  a     1        2\n"
        "2       b2:9092  -     1        3"
    )


def test_what_nobody_knows() -> None:
    text = status_view.text(replace(CLUSTER, cluster_id=None, brokers=()), [])
    assert text.startswith("Cluster id: unknown\nTopics: ")
