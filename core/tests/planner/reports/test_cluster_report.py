"""What the status of a BrokerCluster says where a restart waits."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.auto_rebalance import AutoRebalanceState, AutoRebalanceStatus
from chiplog_core.model.broker_cluster import BrokerClusterStatus
from chiplog_core.model.conditions import ConditionType
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.settings import find_settings
from chiplog_core.planner.counts import count_partitions
from chiplog_core.planner.reports.cluster_report import ClusterFacts, cluster_report, next_report_ms
from chiplog_core.planner.rolls.rollout import Rollout
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW

ONE = BrokerId(1)
NEEDED = Rollout(is_planned=True, outdated=(ONE,), needed=(ONE,))


def facts(rollout: Rollout) -> ClusterFacts:
    kubernetes = Kubernetes()
    kubernetes.run()
    world = kubernetes.world()
    brokers = find_broker_states(world, awaiting_admission(world))
    return ClusterFacts(
        world=world,
        settings=find_settings(world),
        brokers=brokers,
        broker_ids=tuple(kubernetes.brokers),
        problems=(),
        counts=count_partitions(world.maps, brokers),
        rollout=rollout,
    )


def applied(of: ClusterFacts) -> tuple[str, str]:
    (report,) = cluster_report(of, NOW)
    assert isinstance(report.status, BrokerClusterStatus)
    (found,) = (
        one for one in report.status.conditions if one.type == ConditionType.CONFIGURATION_APPLIED
    )
    return found.reason, found.message


def test_a_broker_that_is_needed_is_named_also_where_nobody_else_is_waited_for() -> None:
    assert applied(facts(NEEDED)) == (
        "WaitingToRestart",
        (
            "broker 1 must restart for a changed configuration; without broker 1, partitions would "
            "have fewer in-sync replicas than their min.insync.replicas"
        ),
    )


def test_without_published_conditions_nobody_knows_when_a_restart_will_be_late() -> None:
    found = facts(NEEDED)

    assert next_report_ms(found, NOW) is None
    unread = replace(found, world=replace(found.world, cluster=None))
    assert next_report_ms(unread, NOW) is None
    assert applied(unread)[0] == "WaitingToRestart"


def test_an_automatic_rebalance_that_failed_is_a_warning() -> None:
    found = facts(Rollout())
    cluster = found.world.cluster
    assert cluster is not None
    auto = AutoRebalanceStatus(state=AutoRebalanceState.IDLE, failure="Rebalance x is NotReady")
    status = replace(cluster.status, auto_rebalance=auto)
    world = replace(found.world, cluster=replace(cluster, status=status))

    (report,) = cluster_report(replace(found, world=world), NOW)

    assert isinstance(report.status, BrokerClusterStatus)
    assert report.status.auto_rebalance == auto, "the planner does not write it"
    (warning,) = (one for one in report.status.conditions if one.type == ConditionType.WARNING)
    assert (warning.reason, warning.message) == ("AutoRebalanceFailed", auto.failure)
