"""What a restart is for, in the words of the spec."""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_operator.resources import restart_reasons as module
from chiplog_operator.resources.build import revision
from chiplog_operator.resources.restart_reasons import MAX_REASONS, restart_reasons
from chiplog_operator.resources.settings import BuildSettings

SETTINGS = BuildSettings(broker_image="chiplog/broker:1", internal_password="-")  # noqa: S106
SLOTS = "max.incremental.fetch.session.cache.slots"
OLD = {SLOTS: 8, "log.retention.ms": 7}
ClusterWith = Callable[..., BrokerCluster]


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        ({}, {"config": {SLOTS: 8}}, [f"spec.config[{SLOTS}]"]),
        ({"config": {"log.retention.ms": 7}}, {"config": {"log.retention.ms": 8}}, []),
        ({"config": OLD}, {"config": {SLOTS: 9, "log.retention.ms": 8}}, [f"spec.config[{SLOTS}]"]),
        ({"config": OLD}, {"config": {"log.retention.ms": 7}}, [f"spec.config[{SLOTS}]"]),
        ({"image": "a:1"}, {"image": "a:2"}, ["spec.image"]),
        ({"replicas": 3}, {"replicas": 4}, []),
    ],
)
def test_the_fields_that_ask_for_a_restart_are_named(
    cluster_with: ClusterWith, before: dict[str, Any], after: dict[str, Any], reasons: list[str]
) -> None:
    found = restart_reasons(cluster_with(**before), cluster_with(**after), SETTINGS)

    assert list(found) == reasons


def test_a_spec_that_changes_everywhere_costs_few_comparisons(
    cluster_with: ClusterWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clusters wait while it is compared."""
    asked = []

    def counted(*given: Any) -> str:
        asked.append(given)
        return revision(*given)

    def everywhere(value: str) -> BrokerCluster:
        keys = {f"example.com/{number}": value for number in range(50)}
        conf = {f"spark.kubernetes.node.selector.{number}": value for number in range(100)}
        template = {"labels": keys, "annotations": keys, "nodeSelector": keys}
        return cluster_with(template=template, spark={"sparkConf": conf})

    monkeypatch.setattr(module, "revision", counted)
    found = restart_reasons(everywhere("a"), everywhere("b"), SETTINGS)
    assert len(found) == MAX_REASONS + 1
    assert found[0] == "spec.template.annotations.example.com/0"
    assert found[-1] == "and more"
    assert len(asked) < 30
