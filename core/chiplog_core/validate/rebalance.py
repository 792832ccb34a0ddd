"""Rules for rebalances."""

import re
from collections.abc import Iterator

from chiplog_core.durations import duration_ms
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance import Rebalance, RebalanceMeasure, RebalanceMode
from chiplog_core.problems import Problem
from chiplog_core.validate.spark_conf import check_spark
from chiplog_core.validate.unbuilt import Feature, unless_built
from chiplog_core.validate.verification import not_allowed


def check_rebalance(rebalance: Rebalance) -> tuple[Problem, ...]:
    """Problems with a Rebalance itself."""
    return tuple(
        problem
        for rule in (_brokers, _excluded, _limits, _unbuilt, _spark, _only_for_spark)
        for problem in rule(rebalance)
    )


def check_rebalance_in_cluster(rebalance: Rebalance, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with a Rebalance in the cluster that it names."""
    return not_allowed(rebalance.metadata.namespace, cluster, "rebalances")


def check_rebalance_change(before: Rebalance, after: Rebalance) -> tuple[Problem, ...]:
    """Problems with changing a Rebalance from `before` to `after`."""
    if before.spec.cluster_ref == after.spec.cluster_ref:
        return ()
    remedy = "delete this Rebalance and create one for the other cluster"
    return (Problem("spec.clusterRef", "cannot be changed", remedy),)


def _brokers(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with the list of brokers."""
    spec = rebalance.spec
    if spec.mode is RebalanceMode.FULL and spec.brokers:
        message = "is set, but mode full covers all brokers"
        yield Problem("spec.brokers", message, "remove it, or set spec.mode")
    if spec.mode is not RebalanceMode.FULL and not spec.brokers:
        message = f"is missing, but mode {spec.mode} needs it"
        yield Problem("spec.brokers", message, "list the brokers to add or remove")


def _excluded(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with the pattern of excluded topics."""
    pattern = rebalance.spec.excluded_topics
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"is not a regular expression ({error})"
        yield Problem("spec.excludedTopics", message, "write one like logs-.*")


def _limits(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with time limits."""
    limit = rebalance.spec.time_limit
    if limit is not None and duration_ms(limit) == 0:
        remedy = "raise it, or remove it for no limit"
        yield Problem("spec.timeLimit", "is zero", remedy)


def _unbuilt(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with features that are not built yet."""
    spec = rebalance.spec
    if spec.mode is RebalanceMode.REMOVE_DISKS:
        yield from unless_built(Feature.REMOVE_DISKS, "spec.mode")


def _spark(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with the settings for the Spark job."""
    if rebalance.spec.spark is not None:
        yield from check_spark(rebalance.spec.spark)


def _only_for_spark(rebalance: Rebalance) -> Iterator[Problem]:
    """Problems with settings of a Spark job, if none measures the load."""
    spec = rebalance.spec
    if spec.measure is RebalanceMeasure.SPARK:
        return
    for field, value in (("spark", spec.spark), ("bytesPerSecond", spec.bytes_per_second)):
        if value is not None:
            message = "is set, but is only for spec.measure Spark"
            yield Problem(f"spec.{field}", message, "remove it, or set spec.measure to Spark")
