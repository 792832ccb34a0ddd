"""What is in force while the spec of a cluster does not say it."""

from dataclasses import replace

from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from chiplog_core.ids import BrokerId
from chiplog_core.observed.settings import find_settings
from chiplog_core.problems import Problem
from tests.planner.model import Kubernetes

UNREAD = {"cluster": None, "cluster_problems": (Problem("spec", "is odd", "correct it"),)}


def running() -> Kubernetes:
    kubernetes = Kubernetes(2, config={"log.retention.hours": 500}, metrics={"partitions": True})
    kubernetes.run()
    return kubernetes


def test_topics_inherit_what_a_broker_holds_without_what_is_for_brokers_only() -> None:
    kubernetes = running()
    assert METRICS_PARTITIONS.name in kubernetes.brokers[BrokerId(1)].spec.config

    found = find_settings(kubernetes.world(**UNREAD))

    assert found.cluster is None
    assert found.inherited == {"chiplog.durability": "Fsync", "log.retention.hours": "500"}


def test_what_a_retired_broker_holds_is_out_of_date() -> None:
    kubernetes = running()
    first, second = (kubernetes.brokers[BrokerId(number)] for number in (1, 2))
    old = replace(first.spec, retired=True, config={"log.retention.hours": "1"})
    retired = {BrokerId(1): replace(first, spec=old)}

    found = find_settings(kubernetes.world(brokers={**retired, BrokerId(2): second}, **UNREAD))

    assert found.inherited is not None
    assert found.inherited["log.retention.hours"] == "500"
    assert find_settings(kubernetes.world(brokers=retired, **UNREAD)).inherited is None
