"""What maps are planned from, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Action
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.growth import Room
from chiplog_core.planner.leader_orders import Orders
from chiplog_core.planner.ownership import Ownership
from chiplog_core.planner.preferred import Moves
from chiplog_core.planner.regression import Answers
from chiplog_core.problems import Problem


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a topic is not as its spec says, though nothing is wrong with the spec."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the maps are planned from."""

    world: World
    settings: Settings
    brokers: BrokerStates
    answers: Answers
    moves: Moves
    orders: Orders
    ownership: Ownership
    broker_ids: tuple[BrokerId, ...]
    find_room: Callable[[], Room]
    new_topic_id: Callable[[], TopicId]
    now: datetime


@dataclass(slots=True)
class MapsPlan:
    """The writes, and what to report about each Topic, by its uid, and about a topic of the
    cluster itself, by its name."""

    actions: list[Action] = field(default_factory=list)
    changing: set[str] = field(default_factory=set)
    """Names of the topics whose maps are written."""
    waits: dict[str, Wait] = field(default_factory=dict)
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Found against the topic as it is, on top of those of the spec alone."""
    requeue_after_ms: int | None = None
