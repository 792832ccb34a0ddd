"""The settings of a Rebalance, under the names that users of Cruise Control know.

Source: the REST API of Cruise Control (endpoints rebalance, add_broker, remove_broker) and the
names of its goals.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from chiplog_core.ids import BrokerId
from chiplog_core.observed.pinned import Pinned
from chiplog_core.rebalance.measured import Broker, PartitionName
from chiplog_core.topic_name import is_internal


class RebalanceRefused(Exception):  # noqa: N818 - named for what it says
    """A rebalance that cannot be proposed; names the field and says what to do."""


class Mode(StrEnum):
    """Between which brokers leaderships and replicas move."""

    FULL = "full"
    """From every broker to every usable broker."""
    ADD_BROKERS = "add-brokers"
    """From every broker, but only to the named ones."""
    REMOVE_BROKERS = "remove-brokers"
    """Only from the named brokers, to all others."""


class Goal(StrEnum):
    """What a proposal aims at. If the user names no goal, it aims at all of them."""

    RACK_AWARE = "RackAwareGoal"
    """No two replicas of a partition are in one rack if there are enough racks, and no two are on
    one node if there are enough nodes. Cruise Control takes the node of a broker without a rack."""
    REPLICA_CAPACITY = "ReplicaCapacityGoal"
    """No broker holds more replicas than it may."""
    DISK_CAPACITY = "DiskCapacityGoal"
    """No broker's replicas use more of its volume than they may."""
    REPLICAS = "ReplicaDistributionGoal"
    """All brokers hold nearly the same number of replicas."""
    LEADER_BYTES_IN = "LeaderBytesInDistributionGoal"
    LEADER_REPLICAS = "LeaderReplicaDistributionGoal"
    DISK_USAGE = "DiskUsageDistributionGoal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a rebalance."""

    mode: Mode = Mode.FULL
    brokers: frozenset[BrokerId] = frozenset()
    """The brokers that are added or removed; empty in mode full."""
    excluded_topics: re.Pattern[str] | None = None
    """Topics whose whole names match are not moved, but count as load."""
    goals: frozenset[Goal] = frozenset(Goal)
    pinned: Pinned = field(default_factory=dict)
    """Partitions that are not moved, because their Topics place them; they count as load."""

    def is_excluded(self, topic: str) -> bool:
        """Whether the topic is excluded. Internal topics always are, because the operator
        spreads them when it creates them."""
        if is_internal(topic):
            return True
        return self.excluded_topics is not None and bool(self.excluded_topics.fullmatch(topic))

    def is_pinned(self, name: PartitionName) -> bool:
        """Whether the partition's Topic places it (spec.assignments)."""
        return name.partition in self.pinned.get(name.topic, ())

    def may_move(self, name: PartitionName) -> bool:
        """Whether leaderships and replicas of the partition may be moved."""
        return not (self.is_excluded(name.topic) or self.is_pinned(name))

    def usable(self, brokers: Iterable[Broker]) -> list[BrokerId]:
        """The brokers between which the load is made even: usable, and not to be removed."""
        leaving = self.brokers if self.mode is Mode.REMOVE_BROKERS else frozenset()
        return [
            broker.broker_id
            for broker in brokers
            if broker.is_usable and broker.broker_id not in leaving
        ]

    def may_leave(self, broker_id: BrokerId) -> bool:
        """Whether leaderships and replicas may be moved away from the broker."""
        return self.mode is not Mode.REMOVE_BROKERS or broker_id in self.brokers

    def may_get(self, broker_id: BrokerId) -> bool:
        """Whether the broker may get leaderships and replicas: in mode add-brokers only a named
        broker may, in mode remove-brokers only one that is not named."""
        if self.mode is Mode.FULL:
            return True
        return (broker_id in self.brokers) is (self.mode is Mode.ADD_BROKERS)


def read_settings(
    *,
    mode: str = Mode.FULL.value,
    brokers: Iterable[int] = (),
    excluded_topics: str | None = None,
    goals: Iterable[str] = (),
) -> Settings:
    """The settings from the fields of a Rebalance. No goals mean all goals, and mode full ignores
    `brokers`. Raises `RebalanceRefused` if a field is not valid."""
    named = frozenset(BrokerId(broker_id) for broker_id in brokers)
    read_mode = _mode(mode)
    if read_mode is not Mode.FULL and not named:
        raise RebalanceRefused(f"brokers: mode {mode} needs the ids of brokers: list them")
    return Settings(
        mode=read_mode,
        brokers=named if read_mode is not Mode.FULL else frozenset(),
        excluded_topics=_pattern(excluded_topics),
        goals=read_goals(goals),
    )


def read_goals(goals: Iterable[str]) -> frozenset[Goal]:
    """What spec.goals of a Rebalance aims at: everything if it is empty. Raises
    `RebalanceRefused`."""
    return frozenset(_goal(goal) for goal in goals) or frozenset(Goal)


def _mode(text: str) -> Mode:
    """Parse spec.mode. Raises `RebalanceRefused`."""
    if text == "remove-disks":
        raise RebalanceRefused("mode: remove-disks is not built yet; use remove-brokers")
    try:
        return Mode(text)
    except ValueError:
        valid_modes = ", ".join(Mode)
        raise RebalanceRefused(f"mode: {text!r} is not one of {valid_modes}") from None


def _goal(text: str) -> Goal:
    """Parse one of spec.goals. Raises `RebalanceRefused`."""
    try:
        return Goal(text.rsplit(".", 1)[-1])  # Cruise Control accepts the Java class name as well
    except ValueError:
        valid_goals = ", ".join(Goal)
        raise RebalanceRefused(f"goals: {text!r} is not one of {valid_goals}") from None


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Parse spec.excludedTopics; None if it is not set. Raises `RebalanceRefused`."""
    if not text:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise RebalanceRefused(
            f"excludedTopics: {text!r} is not a regular expression: {problem}"
        ) from None
