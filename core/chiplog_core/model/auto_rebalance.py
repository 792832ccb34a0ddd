"""When the operator rebalances a cluster automatically, and what it does now."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_BROKERS, MAX_MESSAGE_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.references import ObjectName
from chiplog_core.model.roll_policy import CronSchedule, TimeZone
from chiplog_core.model.spark_run import Count, RunNumber

DEFAULT_THRESHOLD_PERCENT = 20

MAX_GOALS = 30

GoalName = Annotated[str, Length(100, minimum=1)]

Ids = Annotated[tuple[BrokerId, ...], Items(MAX_BROKERS, unique=True)]


class AutoRebalanceMode(StrEnum):
    """What begins an automatic Rebalance."""

    ADD_BROKERS = "add-brokers"
    REMOVE_BROKERS = "remove-brokers"
    IMBALANCE = "imbalance"


class AutoRebalanceState(StrEnum):
    """What the operator rebalances now. The names are those of Strimzi."""

    IDLE = "Idle"
    ON_SCALE_UP = "RebalanceOnScaleUp"
    ON_SCALE_DOWN = "RebalanceOnScaleDown"
    ON_IMBALANCE = "RebalanceOnImbalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWindow:
    """A time in which automatic Rebalances may begin."""

    schedule: Annotated[
        CronSchedule,
        "When the window for automatic Rebalances opens, as five cron fields in timeZone, like "
        "0 2 * * 6.",
    ]
    duration: Annotated[
        Duration, "How long the window for automatic Rebalances stays open, like 3h."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRebalance:
    """One occasion for an automatic Rebalance."""

    mode: Annotated[
        AutoRebalanceMode,
        "add-brokers: when brokers were added, load moves to them. imbalance: when the load stays "
        "uneven. remove-brokers: removed brokers are always emptied first; with it, "
        "status.autoRebalance shows that.",
    ]
    template: Annotated[
        ObjectName | None,
        "A Rebalance in the cluster's namespace with the annotation "
        'chiplog.dev/rebalance-template: "true", whose spec is used, except for clusterRef, mode, '
        "brokers and approvedProposal. Default: measure Brokers, and defaults for everything else.",
    ] = None
    threshold: Annotated[
        int | None,
        "Only for mode imbalance: by how many percent the most loaded broker may exceed the mean "
        "of all brokers, in what the goals of the template even out: stored bytes, replicas, bytes "
        f"per second and leaders; default: {DEFAULT_THRESHOLD_PERCENT}.",
        Range(5, 1_000),
    ] = None
    uneven_for: Annotated[
        Duration | None,
        "Only for mode imbalance: for how long the load must have been more uneven than the "
        "threshold; default: 5m.",
    ] = None
    windows: Annotated[
        tuple[RebalanceWindow, ...],
        "A Rebalance begins only in these windows; default: always. One that has begun is "
        "completed.",
        Items(20),
    ] = ()
    time_zone: Annotated[
        TimeZone | None,
        "The time zone of the windows' schedules, like Europe/Berlin; default: UTC.",
    ] = None
    """Without a default in the schema: `kubectl apply` would find the list changed each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftUneven:
    """How uneven the load was for one goal after a Rebalance."""

    goal: Annotated[GoalName, "The goal that could not be met completely."]
    value: Annotated[
        Count,
        "The highest percentage above the mean in the first minutes after the Rebalance; for "
        "RackAwareGoal the number of partitions with two replicas on one node or in one rack. The "
        "next one begins for this goal if the load stays more uneven than that by more than 5 "
        "points (by one partition), or if there are other brokers. If the load has been more even "
        "for 7 days, the highest value of these is taken.",
    ]
    highest: Annotated[Count, "The highest value since highestSince."]
    highest_since: Annotated[
        datetime, "When the 7 days began after which the value may be lowered."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRebalanceStatus:
    """What the operator rebalances automatically."""

    state: Annotated[
        AutoRebalanceState,
        "Idle, or what is being rebalanced: RebalanceOnScaleUp, RebalanceOnScaleDown or "
        "RebalanceOnImbalance.",
    ]
    last_transition_time: Annotated[datetime | None, "When the state last changed."] = None
    rebalance: Annotated[
        ObjectName | None, "The last Rebalance that the operator created, or is about to create."
    ] = None
    created: Annotated[bool, "Whether that Rebalance was seen after it was created."] = False
    brokers: Annotated[Ids, "Ids of the new brokers to which that Rebalance moves load."] = ()
    balanced_brokers: Annotated[
        Ids,
        "Ids of the brokers that are not new any more: they have had their share of the load since "
        "automatic rebalancing was set, or a Rebalance has moved it to them.",
    ] = ()
    runs: Annotated[RunNumber, "How many Rebalances the operator has begun automatically."] = 0
    finished_at: Annotated[datetime | None, "When the last automatic Rebalance ended."] = None
    failure: Annotated[
        str,
        "Why the last automatic Rebalance failed, and what to do; none begins before that.",
        Length(MAX_MESSAGE_LENGTH),
    ] = ""
    waits_until: Annotated[
        datetime | None,
        "When the next window opens, if a Rebalance waits for it.",
    ] = None
    imbalanced_since: Annotated[
        datetime | None,
        "Since when the load has been too uneven for a goal: above the threshold, and by more than "
        "5 points above what the last Rebalance left.",
    ] = None
    bytes_skew_percent: Annotated[
        Count | None,
        "By how many percent the bytes of the fullest broker exceed the mean; not set while they "
        "are unknown, or mode imbalance is not set.",
    ] = None
    replicas_skew_percent: Annotated[
        Count | None,
        "By how many percent the replicas of the broker that has most of them exceed the mean. "
        "Numbers within 5 % of the mean, rounded outwards, count as even.",
    ] = None
    leaders_skew_percent: Annotated[
        Count | None,
        "By how many percent the leaders of the broker that has most of them exceed the mean. If "
        "the goals even out bytes per second, too, only partitions that are not written to count "
        "as too many.",
    ] = None
    bytes_in_skew_percent: Annotated[
        Count | None,
        "By how many percent the bytes per second that are written to the leaders of the busiest "
        "broker exceed the mean. The excess that one partition alone causes does not count.",
    ] = None
    uneven_goals: Annotated[
        tuple[GoalName, ...],
        "The goals for which the load is too uneven now, since imbalancedSince.",
        Items(MAX_GOALS, unique=True),
    ] = ()
    left: Annotated[
        tuple[LeftUneven, ...],
        "What the last Rebalance of mode imbalance could not even out, for each of its goals; "
        "empty while that is not known yet.",
        Items(MAX_GOALS, key=("goal",)),
    ] = ()
    left_brokers: Annotated[Ids, "Ids of the brokers for which left holds."] = ()
