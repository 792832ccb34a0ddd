"""Rebalance: between which brokers load is balanced, and how. Its status is `rebalance_status`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_BROKERS
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.rebalance_status import RebalanceStatus
from chiplog_core.model.references import ClusterRef, ObjectName
from chiplog_core.model.resource import UsersResource
from chiplog_core.model.spark import SparkOverrides
from chiplog_core.model.spark_run import BytesPerSecond
from chiplog_core.naming import api


class RebalanceMode(StrEnum):
    """Between which brokers the load is evened out."""

    FULL = "full"
    ADD_BROKERS = "add-brokers"
    REMOVE_BROKERS = "remove-brokers"
    REMOVE_DISKS = "remove-disks"


class RebalanceMeasure(StrEnum):
    """Where the load that a proposal is made for comes from."""

    SPARK = "Spark"
    BROKERS = "Brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSpec:
    """Scope and approval of the rebalance."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster whose load is balanced. It cannot be changed later."
    ]
    mode: Annotated[
        RebalanceMode,
        "full: balance all brokers. add-brokers: move load onto the brokers in spec.brokers. "
        "remove-brokers and remove-disks: move load away from them.",
    ] = RebalanceMode.FULL
    measure: Annotated[
        RebalanceMeasure,
        "How the load is measured. Spark: a Spark job reads the records, and also finds hot keys. "
        "Brokers: from the sizes and counters of the brokers, within seconds and without a job.",
    ] = RebalanceMeasure.SPARK
    brokers: Annotated[
        tuple[BrokerId, ...],
        "Ids of the brokers to add or remove, for the modes that add or remove brokers.",
        Items(MAX_BROKERS, unique=True),
    ] = ()
    goals: Annotated[
        tuple[Annotated[str, Length(100, minimum=1), Pattern("[A-Za-z]+", "a goal's name")], ...],
        "Goals of the balancing, the most important first; default: an even load on all brokers.",
        Items(30),
    ] = ()
    skip_hard_goal_check: Annotated[bool, "Accepts a list of goals without the hard goals."] = False
    excluded_topics: Annotated[
        str | None,
        "Regular expression; topics whose whole name matches it are not moved.",
        Length(500, minimum=1),
    ] = None
    concurrent_partition_movements_per_broker: Annotated[
        int | None, "How many replicas a broker gives or takes at a time.", Range(1, 1_000)
    ] = None
    concurrent_leader_movements: Annotated[
        int, "How many leaderships are moved at a time.", Range(1, 1_000)
    ] = 1_000
    replication_throttle: Annotated[
        BytesPerSecond | None,
        "How many bytes per second each broker sends at most, and receives at most, for replicas "
        "that are being moved, while this Rebalance moves replicas. In-sync replicas are never "
        "throttled. Default: spec.replicationThrottle of the BrokerCluster.",
    ] = None
    approved_proposal: Annotated[
        ObjectName | None,
        "The status.proposal.id of the proposal to carry out. Only that proposal is carried out. "
        "The annotation chiplog.dev/rebalance=approve approves the current proposal instead.",
    ] = None
    time_limit: Annotated[
        Duration | None, "How long measuring the load may take, like 1h; after that it fails."
    ] = None
    bytes_per_second: Annotated[
        BytesPerSecond | None,
        "Limit for the bytes per second that all executors together read to measure the "
        "load; default: no limit. Only for spec.measure Spark.",
    ] = None
    spark: Annotated[
        SparkOverrides | None,
        "Settings of the Spark job that override the cluster's spec.spark. Only for spec.measure "
        "Spark.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance(UsersResource):
    """Balances the load of brokers: measures it, proposes moves, and carries them out after
    approval.
    """

    KIND = api.REBALANCE

    spec: RebalanceSpec
    status: RebalanceStatus = field(default_factory=RebalanceStatus)
