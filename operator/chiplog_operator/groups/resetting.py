"""Asks coordinators for the resets that ConsumerGroups want, as `chiplog_core.group_watch.resets`
decides: the leaders where their partitions begin and end, then at once the coordinator.

What is found out is remembered until it is published. It is gone with the process, and then asked
for again: the coordinator knows which ids it ran.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from chiplog_core.group_watch.requests import FindTopic
from chiplog_core.group_watch.resets import (
    Tried,
    is_due,
    partitions_of,
    positions_requests,
    reset_event,
    reset_request,
    reset_status,
    tried,
)
from chiplog_core.group_watch.watch import ObservedGroup
from chiplog_core.ids import BrokerId
from chiplog_core.model.consumer_group import Reset
from chiplog_core.model.group_exchange import (
    GroupFacts,
    Positions,
    PositionsRequest,
    ResetAnswer,
    ResetRequest,
)
from chiplog_core.model.group_status import ResetStatus
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.events import Announcer
from chiplog_operator.writes import Authority, NotActive

logger = logging.getLogger(__name__)

MAX_CONCURRENT: Final = 4
"""Resets that may be in progress at the same time; each asks several brokers."""


class Brokers(Protocol):
    """The brokers of one cluster, as far as they can be asked now."""

    async def positions(
        self, requests: Mapping[BrokerId, Sequence[PositionsRequest]]
    ) -> Sequence[Positions]:
        """The answers of the brokers that answered."""

    async def reset(self, broker_id: BrokerId, asked: ResetRequest) -> ResetAnswer | None:
        """The coordinator's answer; None if it did not answer."""


class Resetting:
    """Carries out the resets of one cluster's groups."""

    def __init__(
        self,
        *,
        clock: Clock,
        authority: Authority,
        events: Announcer,
    ) -> None:
        """`events` creates Events when resets end."""
        self._clock = clock
        self._authority = authority
        self._events = events
        self._tried: dict[str, Tried] = {}
        self._new_statuses: dict[str, ResetStatus] = {}
        """The statuses of resets that are to be published, by uid of the ConsumerGroup."""

    async def reconcile(
        self, observed: Iterable[ObservedGroup], brokers: Brokers, find_topic: FindTopic
    ) -> Mapping[str, ResetStatus]:
        """Request the resets that are due. Returns the statuses of resets to publish, by uid of the
        ConsumerGroup, including those of earlier passes. Raises `NotActive`."""
        observed = list(observed)
        self._forget(observed)
        now_ms = self._now_ms()

        async def ask(group_to_reset: ObservedGroup) -> None:
            await self._request_reset(group_to_reset, brokers, find_topic)

        due = [
            group
            for group in observed
            if group.may_change
            and is_due(group.group, group.facts, self._tried.get(group.group.metadata.uid), now_ms)
        ]
        await run_concurrently(ask, due, max_concurrent=MAX_CONCURRENT)
        return dict(self._new_statuses)

    async def _request_reset(
        self, about: ObservedGroup, brokers: Brokers, find_topic: FindTopic
    ) -> None:
        """Request the reset of one group. Keep the outcome for its status, and create an Event if
        it has one."""
        group, facts, reset = about.group, about.facts, about.group.spec.reset
        assert facts is not None and reset is not None, "only such a group is due"  # noqa: PT018
        answer = await self._coordinator_answer(about, reset, facts, brokers, find_topic)
        uid = group.metadata.uid
        self._tried[uid] = tried(group, facts, answer, self._now_ms())
        before = self._new_statuses.get(uid, group.status.reset)
        after = reset_status(before, reset, answer, self._clock.now())
        if after is None:
            return
        self._new_statuses[uid] = after
        if (event := reset_event(group, before, after)) is not None:
            logger.info(
                "group_reset",
                extra={
                    "group": group.group_id,
                    "reset": after.id,
                    "state": after.state.value,
                    "reason": after.message,
                },
            )
            await self._events.announce(event)

    async def _coordinator_answer(
        self,
        about: ObservedGroup,
        reset: Reset,
        facts: GroupFacts,
        brokers: Brokers,
        find_topic: FindTopic,
    ) -> ResetAnswer | None:
        """Ask the partitions' leaders for offsets, and then the coordinator for the reset to them.
        Returns the coordinator's answer; None if it is not known or did not answer."""
        if about.coordinator is None:
            return None
        wanted = partitions_of(reset, facts, find_topic)
        wall_ms = int(self._clock.now().timestamp() * 1000)
        requests = positions_requests(wanted, reset, find_topic, wall_ms)
        positions = await brokers.positions(requests)
        asked = reset_request(about.group.group_id, reset, positions)
        if not self._authority.is_held():
            raise NotActive  # the active operator may know that the spec has changed
        return await brokers.reset(about.coordinator, asked)

    def _forget(self, observed: Iterable[ObservedGroup]) -> None:
        """Forget objects that are gone or want no reset, and resets with another id than the spec
        has now."""
        groups = [observed_group.group for observed_group in observed]
        wanted = {
            group.metadata.uid: group.spec.reset.id
            for group in groups
            if group.spec.reset is not None
        }
        self._tried = {uid: tried for uid, tried in self._tried.items() if uid in wanted}
        self._new_statuses = {
            uid: status
            for uid, status in self._new_statuses.items()
            if wanted.get(uid) == status.id
        }

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
