"""Which damaged replicas are fetched again, and when: a pure function of the observed objects.

A completed run of a Verification reports (accuses) damaged replicas. Each is ordered to be fetched
again at most once for that run, and only as long as no records can be lost by it: enough other
replicas are undamaged and in sync, no other replica of the partition is damaged, and few replicas
are fetched at the same time. An order is written into the Broker's spec, for the present session of
the broker. It is removed when the status of the Verification shows the end of the repair, so that
an operator that takes over in between does not order it again.

A replica is not repaired if its damage is not certain: if the run did not read everything or is too
long ago, if the topic was created again since, or if the broker was restarted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from chiplog_core.limits import MAX_REFETCHES
from chiplog_core.model.broker import Broker, RefetchOrder
from chiplog_core.model.verification import RepairState, ReplicaRepair
from chiplog_core.spark.repair_fleet import ClusterState, Fleet, Replica, place_of, replica_of
from chiplog_core.spark.steps import OrderRefetch, StepEvent
from chiplog_core.spark.verification_report import Finding

MAX_FINDING_AGE: Final = timedelta(hours=1)
"""How long after the end of a run its findings may lead to an order."""

ENDED: Final = frozenset({RepairState.DONE, RepairState.REFUSED})
"""The states in which a repair has ended."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """The result of one pass."""

    repairs: tuple[ReplicaRepair, ...]
    orders: tuple[OrderRefetch, ...] = ()
    events: tuple[StepEvent, ...] = ()


def repairs_asked_by(run: str, finding: Finding, now: datetime) -> tuple[ReplicaRepair, ...]:
    """The repairs that a completed run asks for. Empty if the run did not read everything.

    If a partition is reported without naming a replica, it is unknown which of its replicas is
    right. Then the repairs of its replicas are refused from the beginning.
    """
    if not finding.is_complete:
        return ()
    disputed = {place_of(damage) for damage in finding.reported_damage if damage.replica is None}
    found = []
    for damage in finding.reported_damage:
        if damage.replica is None:
            continue
        repair = ReplicaRepair(
            run=run,
            topic=damage.topic,
            topic_id=damage.topic_id,
            partition=damage.partition,
            replica=damage.replica,
            checks=damage.checks,
            since=now,
        )
        if place_of(damage) in disputed:
            message = "it is unknown which replica of the partition is right"
            repair = replace(repair, state=RepairState.REFUSED, message=message)
        found.append(repair)
    return tuple(_whole_partitions(found))


def after_run(
    known: Iterable[ReplicaRepair], proven: Sequence[ReplicaRepair]
) -> tuple[ReplicaRepair, ...]:
    """The repairs after a run: those of earlier runs that are in progress (`known` are all of
    them), and those that the run asks for (`proven`)."""
    in_progress = [
        repair for repair in known if repair.state in {RepairState.ORDERED, RepairState.FETCHING}
    ]
    taken = {replica_of(repair) for repair in in_progress}
    new = [repair for repair in proven if replica_of(repair) not in taken]
    return tuple(_whole_partitions([*in_progress, *new]))


def _whole_partitions(repairs: Sequence[ReplicaRepair]) -> Sequence[ReplicaRepair]:
    """The first repairs, up to the limit of the status. If the limit splits the repairs of a
    partition, all of them are left out, because they depend on each other."""
    if len(repairs) <= MAX_REFETCHES:
        return repairs
    beyond_limit = place_of(repairs[MAX_REFETCHES])
    return [repair for repair in repairs[:MAX_REFETCHES] if place_of(repair) != beyond_limit]


def damaged_in(repairs: Iterable[ReplicaRepair]) -> frozenset[Replica]:
    """The damaged replicas whose repair has not ended."""
    return frozenset(replica_of(repair) for repair in repairs if repair.state not in ENDED)


def next_repairs(
    known: Sequence[ReplicaRepair], cluster_state: ClusterState, now: datetime, *, is_wanted: bool
) -> Repairs:
    """The next state of each repair, and new orders. `known` are the repairs in the status;
    `is_wanted` is whether the spec still asks for repairs."""
    repairs, orders = list(known), []
    fleet = Fleet(cluster_state, known)
    for index, repair in enumerate(known):
        repairs[index] = _next(repair, fleet, now, is_wanted=is_wanted)
        if repairs[index].state is RepairState.WAITING and is_wanted:
            why_not = fleet.why_not(repair)
            repairs[index] = replace(
                repairs[index],
                message=why_not or "the operator is ordering the broker to fetch the replica again",
            )
            if not why_not:
                orders.append(fleet.order(repair))
    changes = zip(known, repairs, strict=True)
    events = tuple(
        _repair_event(after) for before, after in changes if before.state is not after.state
    )
    return Repairs(tuple(repairs), tuple(orders), events)


def ended_orders(
    brokers: Iterable[Broker], repairs: Iterable[ReplicaRepair]
) -> Iterator[tuple[Broker, tuple[RefetchOrder, ...]]]:
    """Each Broker with orders that no repair needs any more, and the orders that it keeps.

    `repairs` are those of all Verifications of the cluster, from their statuses.
    """
    not_ended = (repair for repair in repairs if repair.state not in ENDED)
    needed = {(repair.replica, repair.run, *place_of(repair)) for repair in not_ended}
    for broker in brokers:
        spec = broker.spec
        kept = tuple(
            order
            for order in spec.refetches
            if (spec.broker_id, order.run, order.topic_id, order.partition) in needed
        )
        if kept != spec.refetches:
            yield broker, kept


def _next(repair: ReplicaRepair, fleet: Fleet, now: datetime, *, is_wanted: bool) -> ReplicaRepair:
    """The repair with its state of now. The message is cut to the limit of the status."""
    if repair.state in ENDED:
        return repair
    state, message = _current_state(repair, fleet, now, is_wanted=is_wanted)
    since = repair.since if state is repair.state else now
    return replace(repair, state=state, message=message[:1_024], since=since)


def _current_state(
    repair: ReplicaRepair, fleet: Fleet, now: datetime, *, is_wanted: bool
) -> tuple[RepairState, str]:
    """The state of a repair that has not ended, and a message that explains it."""
    if fleet.state_of(repair) is None:
        return RepairState.REFUSED, "the partition that was verified does not exist any more"
    if repair.state is RepairState.FETCHING:
        return _fetching_or_done(repair, fleet)
    order = fleet.order_for(repair)
    if order is None:
        return _without_order(repair, fleet, now, is_wanted=is_wanted)
    return _with_order(repair, order, fleet)


def _with_order(
    repair: ReplicaRepair, order: RefetchOrder, fleet: Fleet
) -> tuple[RepairState, str]:
    """The state of a repair whose order is in the Broker's spec, and a message."""
    answer = fleet.answer_for(repair)
    if answer is not None and answer.refusal:
        return RepairState.REFUSED, answer.refusal
    if answer is not None:
        return _fetching_or_done(repair, fleet)
    if fleet.brokers[repair.replica].spec.session == order.session:
        return RepairState.ORDERED, (
            "the replica's broker has not answered the order to fetch the replica again yet"
        )
    # The broker restarted. If it reports the replica as damaged, it has begun to carry out the
    # order.
    if fleet.is_damaged(repair.replica, place_of(repair)):
        return _fetching_or_done(repair, fleet)
    return (
        RepairState.REFUSED,
        "the replica's broker restarted before it answered the order to fetch the replica again",
    )


def _without_order(
    repair: ReplicaRepair, fleet: Fleet, now: datetime, *, is_wanted: bool
) -> tuple[RepairState, str]:
    """The state of a repair without an order in the Broker's spec, and a message."""
    if repair.state is RepairState.ORDERED:
        return RepairState.REFUSED, (
            "the order to fetch the replica again was removed from the Broker's spec, and is not "
            "repeated"
        )
    if not is_wanted:
        return RepairState.REFUSED, "spec.repair does not say Refetch any more"
    if repair.since is None or now - repair.since > MAX_FINDING_AGE:
        return RepairState.REFUSED, (
            f"the repair could not be ordered within an hour of the run: {repair.message}"
        )
    if fleet.is_damaged(repair.replica, place_of(repair)):
        return RepairState.REFUSED, ("the replica's broker found the damage itself and repairs it")
    state = fleet.state_of(repair)
    if state is None or repair.replica not in state.replicas:
        return RepairState.REFUSED, (
            f"broker {repair.replica} holds no replica of the partition any more"
        )
    return RepairState.WAITING, repair.message


def _fetching_or_done(repair: ReplicaRepair, fleet: Fleet) -> tuple[RepairState, str]:
    """The state, and a message, of a repair whose broker carries out the order. The repair is done
    when the replica is neither damaged nor out of sync."""
    if fleet.is_damaged(repair.replica, place_of(repair)):
        return RepairState.FETCHING, "the replica is being fetched again from its leader"
    if repair.replica not in fleet.in_sync(repair):
        return RepairState.FETCHING, "the replica was fetched again, but is not in sync yet"
    return RepairState.DONE, (
        "the replica was fetched again and is in sync; the damaged files are kept next to it"
    )


def _repair_event(repair: ReplicaRepair) -> StepEvent:
    """The Event for a repair that changed its state."""
    reason = {
        RepairState.WAITING: "RefetchWaits",
        RepairState.ORDERED: "RefetchOrdered",
        RepairState.FETCHING: "ReplicaFetchedAnew",
        RepairState.DONE: "ReplicaRepaired",
        RepairState.REFUSED: "RefetchRefused",
    }[repair.state]
    checks = ", ".join(check.value for check in repair.checks)
    message = (
        f"{repair.topic}-{repair.partition} on broker {repair.replica} ({checks}): {repair.message}"
    )
    return StepEvent(repair.state is not RepairState.DONE, reason, message)
