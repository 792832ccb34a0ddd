"""Replicas that are fetched again by order of the operator, because a Verification proved them
damaged.

An order is for one session and is carried out once. The effect is the same as for damage that the
broker finds: the replica is not served and does not lead, and is set aside for a new copy when
another replica leads. The broker checks its own map first, because the order may be older.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias
from uuid import UUID

from chiplog_broker.metadata.port import LocalReplicas
from chiplog_broker.metadata.view import NO_LEADER, ClusterView, PartitionView, TopicView
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import PartitionIndex, TopicId
from chiplog_core.model.broker import RefetchOrder
from chiplog_core.model.broker_status import RefetchAnswer

logger = logging.getLogger(__name__)

Name: TypeAlias = tuple[str, TopicId, PartitionIndex]
"""Run, topic id and partition, which identify an order. The run is the name of
the Spark job that proved the damage."""


class Refetches:
    """The refetch orders to one broker process, and its answers."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: LocalReplicas,
        start: Callable[[Coroutine[Any, Any, None]], None],
        answered: Callable[[], None],
    ) -> None:
        """`start` runs work in a task; `answered` is called when `answers` changes."""
        self._cluster = cluster
        self._replicas = replicas
        self._start = start
        self._answered = answered
        self._orders: tuple[RefetchOrder, ...] = ()
        self._started: set[Name] = set()
        self._refusals: dict[Name, str] = {}
        """Order -> why it was refused; empty if it was carried out."""

    @property
    def answers(self) -> tuple[RefetchAnswer, ...]:
        """The answers to the present orders."""
        return tuple(
            RefetchAnswer(
                run=order.run,
                topic_id=order.topic_id,
                partition=order.partition,
                refusal=self._refusals[_name(order)],
            )
            for order in self._orders
            if _name(order) in self._refusals
        )

    def orders_changed(self, orders: tuple[RefetchOrder, ...]) -> None:
        """`orders` are the present ones of the Broker object: start the new ones."""
        if orders != self._orders:
            self._orders = orders
            self._answered()
            self.reapply()

    def reapply(self) -> None:
        """Start those refetch orders of the operator that name the present session and were not
        started yet: a replica here is proven damaged, and is fetched again from its leader. Called
        when orders change, and when a session begins."""
        due = [
            order
            for order in self._orders
            if order.session == self._cluster.session and _name(order) not in self._started
        ]
        if due:
            self._started |= {_name(order) for order in due}
            self._start(self._carry_out(due))

    async def _carry_out(self, orders: list[RefetchOrder]) -> None:
        """Carry out the orders one after the other, and report the answer to each."""
        for order in orders:
            refusal = await self._refetch(order)
            self._refusals[_name(order)] = refusal
            facts = {
                "run": order.run,
                "topic_id": str(order.topic_id),
                "partition": order.partition,
            }
            if refusal:
                logger.warning("refetch_refused", extra={**facts, "reason": refusal})
            else:
                logger.warning("refetch_begun", extra=facts)
            self._answered()

    async def _refetch(self, order: RefetchOrder) -> str:
        """Start a refetch. Returns why it cannot be done; empty if it was started."""
        topic_id = UUID(bytes=order.topic_id.value)
        topic = self._cluster.topic_with_id(topic_id)
        view = None if topic is None else _partition(topic, order.partition)
        if topic is None or view is None:
            return "this broker does not know the partition"
        why_not = self._why_not(topic, view)
        if why_not:
            return why_not
        name = TopicPartition(topic.name, view.index)
        if not await self._replicas.mark_damaged(topic_id, name, f"{order.run} proved it damaged"):
            return (
                "this broker has no undamaged replica of the partition, or already fetches it again"
            )
        return ""

    def _why_not(self, topic: TopicView, view: PartitionView) -> str:
        """Why this replica may not be set aside, by the present map; empty if it may."""
        own = self._cluster.broker_id
        if view.leader_id == NO_LEADER:
            return "the partition has no leader"
        others = [
            replica
            for replica in view.isr_refs
            if replica.broker_id != own and replica in view.live_refs
        ]
        if len(others) < max(topic.min_isr, 1):
            return (
                f"only {len(others)} other replicas are in sync, and {topic.min_isr} are required"
            )
        return ""


def _partition(topic: TopicView, index: int) -> PartitionView | None:
    return next((partition for partition in topic.partitions if partition.index == index), None)


def _name(order: RefetchOrder) -> Name:
    return order.run, order.topic_id, order.partition
