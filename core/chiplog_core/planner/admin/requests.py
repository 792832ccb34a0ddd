"""Requests of Kafka's admin clients: the operator's writes for them, and its answers.

About requests for users, see `chiplog_core.planner.admin.users`. The following is about topics.

A Topic that is written for a request has the request's key in an annotation. So another operator
that takes over finds what was done, and answers the request instead of carrying it out again. A
request for a topic name is begun only when the one before it for that name is answered in the
Broker object, where the answer survives the operator: otherwise it would overwrite the annotation
of the request before it while that is still needed.

A deletion leaves no object that could have an annotation. It is done when the topic does not exist
any more. It names the topic id, so carrying it out again cannot delete another topic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from chiplog_core.admin.answers import Verdict, to_answer
from chiplog_core.admin.bodies import from_body
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import OperatorRequest
from chiplog_core.admin.request_keys import request_key
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.actions import WriteTopic, WriteUser
from chiplog_core.model.admin import AdminAnswer, AdminRequest
from chiplog_core.model.broker import Broker
from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels
from chiplog_core.observed.world import World
from chiplog_core.planner.admin.decisions import (
    Decider,
    Decision,
    Electing,
    Moving,
    ThrottlingBroker,
    ThrottlingTopic,
)
from chiplog_core.planner.admin.waiting import Waiting
from chiplog_core.planner.leadership.preferred import Requested
from chiplog_core.planner.moves.admin_reassignments import Reassignments, Targets
from chiplog_core.planner.moves.throttles import ClientThrottles
from chiplog_core.topic_name import collision_key


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPlan:
    """What to write for admin clients, and the answers to them."""

    writes: tuple[WriteTopic | WriteUser, ...]
    answers: Mapping[BrokerId, tuple[AdminAnswer, ...]]
    """What `spec.answers` of every Broker should be."""
    elections: Requested = field(default_factory=dict)
    """Partitions whose preferred leaders this plan should elect, because clients requested it."""
    reassignments: Reassignments = field(default_factory=dict)
    """Reassignments that this plan should begin, because clients requested them."""
    throttles: ClientThrottles = field(default_factory=ClientThrottles)
    """Throttles of replication that this plan should write, because clients requested them."""
    requeue_after_ms: int | None = None
    """In how many milliseconds the deadline of the next open request is over."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A request without an answer."""

    broker_id: BrokerId
    request: AdminRequest
    operation: OperatorRequest
    key: str
    """From `request_key`."""

    @property
    def order(self) -> tuple[datetime, BrokerId, str]:
        """Sort key: the earliest deadline first. It is unique, so every operator has one order."""
        return self.request.deadline, self.broker_id, self.request.id


def answer_requests(world: World, now: datetime) -> AdminPlan:
    """The writes and answers for all admin requests in the statuses of Brokers."""
    answers = {broker_id: _kept(broker) for broker_id, broker in world.brokers.items()}
    # Until all objects are listed, it is not known which Topics exist and what was done already.
    requests = _open(world, answers) if world.is_complete else []
    writes: list[WriteTopic | WriteUser] = []
    waiting: list[_Open] = []  # requests that this plan does not answer
    elections: dict[TopicId, frozenset[PartitionIndex]] = {}
    reassignments: dict[TopicId, Targets] = {}
    of_topics: dict[str, Mapping[str, str]] = {}
    of_brokers: dict[BrokerId, Mapping[str, str]] = {}
    for open_request, decision in _decisions(world, now, requests):
        match decision:
            case WriteTopic() | WriteUser():
                writes.append(decision)
                waiting.append(open_request)
            case Waiting():
                waiting.append(open_request)
            case Electing(topic_id, partitions):
                elections[topic_id] = elections.get(topic_id, frozenset()) | partitions
                waiting.append(open_request)
            case Moving(topic_id, targets):
                reassignments[topic_id] = {**reassignments.get(topic_id, {}), **targets}
                waiting.append(open_request)
            case ThrottlingTopic(name, config):
                of_topics[name] = config
                waiting.append(open_request)
            case ThrottlingBroker(broker_id, config):
                of_brokers[broker_id] = config
                waiting.append(open_request)
            case Verdict():
                answers[open_request.broker_id][open_request.request.id] = to_answer(
                    open_request.request.id, open_request.operation.name, decision
                )
    return AdminPlan(
        writes=tuple(writes),
        answers={broker_id: tuple(given.values()) for broker_id, given in answers.items()},
        elections=elections,
        reassignments=reassignments,
        throttles=ClientThrottles(of_topics, of_brokers),
        requeue_after_ms=_next_deadline_ms(waiting, now),
    )


def _requests(broker: Broker) -> tuple[AdminRequest, ...]:
    """The requests in the broker's status; none if it was not written by the admitted process."""
    incarnation = broker.spec.admitted_incarnation
    if incarnation is None or broker.status.incarnation != incarnation:
        return ()
    return broker.status.requests


def _kept(broker: Broker) -> dict[str, AdminAnswer]:
    """Request id -> the answer given before, for requests that the broker still has in its status.

    The broker removes a request when it has the answer, so other answers are not needed any more.
    """
    requested = {request.id for request in _requests(broker)}
    return {answer.id: answer for answer in broker.spec.answers if answer.id in requested}


def _open(world: World, answers: Mapping[BrokerId, dict[str, AdminAnswer]]) -> list[_Open]:
    """The requests without an answer, in their `order`. Requests that cannot be parsed are left
    out: they get an error in `answers`."""
    found = []
    for broker_id, broker in world.brokers.items():
        for request in _requests(broker):
            if request.id in answers[broker_id]:
                continue
            try:
                operation = from_body(request.op, request.body)
            except Refused as refused:
                verdict = Verdict(code=refused.code, message=str(refused))
                answers[broker_id][request.id] = to_answer(request.id, "", verdict)
            else:
                key = request_key(broker.spec.admitted_incarnation, request.id)
                found.append(_Open(broker_id, request, operation, key))
    return sorted(found, key=lambda open_request: open_request.order)


def _decisions(
    world: World, now: datetime, requests: Iterable[_Open]
) -> Iterator[tuple[_Open, Decision]]:
    """The decision on each request. Requests for the same topic name are decided in their order."""
    by_name: dict[str, list[_Open]] = {}
    for open_request in requests:
        by_name.setdefault(collision_key(open_request.operation.name), []).append(open_request)
    if not by_name:
        return
    done = _done(world.topics)
    decider = None if world.cluster is None else Decider(world, world.cluster)
    for group in by_name.values():
        for open_request, decision in _in_turn(group, done, decider):
            yield open_request, _by_deadline(decision, open_request, now)


def _done(topics: Iterable[Topic]) -> dict[str, Topic]:
    """Request key -> the Topic that has the key in its annotation, because the request was carried
    out on it. A Topic has the key of the last such request only."""
    return {
        key: topic
        for topic in topics
        if (key := topic.metadata.annotations.get(labels.ADMIN_REQUEST)) is not None
    }


def _in_turn(
    group: Sequence[_Open], done: Mapping[str, Topic], decider: Decider | None
) -> Iterator[tuple[_Open, Decision]]:
    """The decisions on the requests for one topic name. Each waits until all before it are
    answered.

    `done` has the requests that were carried out, by their keys. `decider` is None if the
    BrokerCluster cannot be parsed.
    """
    # A request that was carried out but has no answer yet blocks all others.
    blocked = any(open_request.key in done for open_request in group)
    for open_request in group:
        if topic := done.get(open_request.key):
            # Carried out. The broker replies when it has seen the map of this Topic.
            yield open_request, Verdict(topic_uid=topic.metadata.uid)
        elif decider is None:
            yield (
                open_request,
                Waiting("the spec of the BrokerCluster cannot be parsed: correct it"),
            )
        elif blocked:
            yield (
                open_request,
                Waiting(
                    "the operator is busy with earlier requests for this topic or user: try again"
                ),
            )
        else:
            decision = decider.decide(open_request.operation, open_request.key)
            # The next request waits for any decision except a refusal, which changes nothing.
            blocked = not isinstance(decision, Verdict) or decision.code is Code.NONE
            yield open_request, decision


def _by_deadline(decision: Decision, open_request: _Open, now: datetime) -> Decision:
    """The decision; an error in its place if the client's deadline is over. Then a write or an
    election is not begun any more."""
    if isinstance(decision, Verdict) or now < open_request.request.deadline:
        return decision
    if isinstance(decision, Waiting):
        return Verdict(code=decision.code, message=decision.why)
    return Verdict(
        code=Code.REQUEST_TIMED_OUT,
        message="the operator did not handle the request in time: try again",
    )


def _next_deadline_ms(waiting: Iterable[_Open], now: datetime) -> int | None:
    """After how many milliseconds the next deadline is over, rounded up; None without requests."""
    left = [open_request.request.deadline - now for open_request in waiting]
    return max(0, min(left) // timedelta(milliseconds=1) + 1) if left else None
