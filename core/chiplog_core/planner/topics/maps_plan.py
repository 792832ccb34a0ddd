"""The input and the result of planning PartitionMaps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Action
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.leader_orders import Orders
from chiplog_core.planner.leadership.preferred import Moves
from chiplog_core.planner.leadership.regression import Answers
from chiplog_core.planner.moves.admin_reassignments import Reassignments
from chiplog_core.planner.moves.reassignment import MoveReports
from chiplog_core.planner.moves.replica_orders import ReplicaOrders
from chiplog_core.planner.moves.throttles import ClientThrottles
from chiplog_core.planner.placement.growth import PlacementTargets
from chiplog_core.planner.topics.ownership import Ownership
from chiplog_core.problems import Problem


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a topic does not match its spec yet, although the spec is valid: for its Ready
    condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything from which the maps of one plan are planned."""

    world: World
    settings: Settings
    brokers: BrokerStates
    answers: Answers
    reassignments: Reassignments
    throttles: ClientThrottles
    moves: Moves
    move_reports: MoveReports
    orders: Orders
    replica_orders: ReplicaOrders
    ownership: Ownership
    broker_ids: tuple[BrokerId, ...]
    find_placement_targets: Callable[[], PlacementTargets]
    new_topic_id: Callable[[], TopicId]
    now: datetime


@dataclass(slots=True)
class MapsPlan:
    """The writes of maps, and what to report in statuses."""

    actions: list[Action] = field(default_factory=list)
    changing: set[str] = field(default_factory=set)
    """Names of the topics whose maps are written."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """uid of a Topic, or name of an internal topic -> why it waits."""
    moves_waiting: dict[str, str] = field(default_factory=dict)
    """Name of a topic -> why one of its partitions cannot move to where it should be."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of a Topic -> problems of its spec with the existing topic, like fewer partitions."""
    requeue_after_ms: int | None = None
