"""Records what was carried out: Events for `kubectl describe`, and a log line for each.

They follow the writes: no write waits for them, and nothing is recorded that did not happen. The
number of Events is limited, because each is a write to the API server; the log has everything.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import ReplicaRef
from chiplog_core.model.actions import (
    Action,
    Announce,
    Create,
    DeleteMap,
    EventType,
    LeaderChange,
    News,
    Replace,
    Report,
)
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.naming import api
from chiplog_core.planner.news import condition_news, election_news, topic_created, topic_deleted
from chiplog_kube import kinds
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.events import Announcer
from chiplog_operator.parsed import metadata_of
from chiplog_operator.writes import IN_FLIGHT

logger = logging.getLogger(__name__)

BURST = 60
"""Events that may be created at once after a pause."""
EVENTS_A_SECOND = 1.0
"""Events that may be created in the long run."""
MAX_LISTED = 50
"""This many partitions of one map are named in the log."""

QUIET_KINDS = frozenset({api.VERIFICATION, api.REBALANCE})
"""The loop for Spark jobs records each of their steps itself."""


@dataclass(slots=True)
class ExecutedPlan:
    """What one plan changed, as far as Events report it."""

    cluster: ClusterKey
    news: list[News] = field(default_factory=list)
    """News for Events about the BrokerCluster."""
    changes: list[LeaderChange] = field(default_factory=list)
    others: list[Announce] = field(default_factory=list)
    """Events about other objects."""

    def did(self, action: Action) -> None:
        """Collect the news of an action that was carried out. Most actions have none."""
        match action:
            case Replace():
                self.news += action.news
                self.changes += action.leader_changes
                self._log_elections(action)
            case Create(resource=PartitionMap() as made):
                self.news.append(topic_created(made.spec))
            case Create(reason=reason, message=message) if reason:
                self.news.append(News(EventType.NORMAL, reason, message))
            case DeleteMap():
                self.news.append(topic_deleted(action.resource.spec))
            case _:
                pass

    def reported(self, report: Report, before: Mapping[str, object]) -> None:
        """Collect the news in a status that was written: conditions that differ from those of
        `before`, the status that it replaced."""
        if report.kind in QUIET_KINDS:
            return
        conditions = before.get("conditions")
        published = conditions if isinstance(conditions, list) else []
        for news_item in condition_news(published, report.status.conditions):
            if report.kind is api.BROKER_CLUSTER:
                self.news.append(news_item)
            else:
                self.others.append(_announce(report.kind.kind, report.metadata, news_item))

    def _log_elections(self, action: Replace) -> None:
        """Log the changes of leaders in a PartitionMap that was written."""
        if action.leader_changes and isinstance(action.resource, PartitionMap):
            listed = [
                {
                    "partition": change.partition,
                    "from": _text(change.before),
                    "to": _text(change.after),
                }
                for change in action.leader_changes[:MAX_LISTED]
            ]
            facts = {"topic": action.resource.spec.topic_name, "changes": listed}
            more = len(action.leader_changes) - len(listed)
            logger.info(
                "leaders_elected", extra={"cluster": str(self.cluster), **facts, "more": more}
            )


class EventRecorder:
    """Records the Events of all clusters of one operator process, within an allowance."""

    def __init__(self, caches: Caches, clock: Clock, events: Announcer) -> None:
        self._caches = caches
        self._clock = clock
        self._events = events
        self._allowance = float(BURST)
        self._since_s = clock.monotonic_s()

    async def record(self, executed: ExecutedPlan) -> None:
        """Log the news of a plan, and create Events for them as far as the allowance lasts."""
        events = [*self._of_cluster(executed), *executed.others]
        for event in events:
            facts = {"kind": event.kind, "object": event.metadata.name, "text": event.message}
            extra = {"cluster": str(executed.cluster), "reason": event.reason, **facts}
            logger.info("happened", extra=extra)
        allowed = self._allowed(len(events))
        if allowed < len(events):
            missing = {"cluster": str(executed.cluster), "events": len(events) - allowed}
            logger.info("events_not_made", extra={**missing, "reason": "too many at once"})
        await run_concurrently(self._events.announce, events[:allowed], max_concurrent=IN_FLIGHT)

    def _of_cluster(self, executed: ExecutedPlan) -> Iterator[Announce]:
        """The Events about the BrokerCluster; none if it does not exist."""
        found = self._caches[kinds.BROKER_CLUSTERS].get(*executed.cluster)
        if found is None:
            return  # the BrokerCluster does not exist
        news: Iterable[News] = (*election_news(executed.changes), *executed.news)
        for item in news:
            yield _announce(api.BROKER_CLUSTER.kind, metadata_of(found), item)

    def _allowed(self, wanted: int) -> int:
        """Return how many of the wanted Events may be created now, and subtract them from the
        allowance, which grows by `EVENTS_A_SECOND` up to `BURST`."""
        now_s = self._clock.monotonic_s()
        grown = self._allowance + (now_s - self._since_s) * EVENTS_A_SECOND
        allowed = min(wanted, int(min(grown, BURST)))
        self._allowance, self._since_s = min(grown, BURST) - allowed, now_s
        return allowed


def _announce(kind: str, about: Metadata, news: News) -> Announce:
    """The action that creates an Event with this news about an object of our API."""
    return Announce(
        kind=kind,
        api_version=api.API_VERSION,
        metadata=about,
        type=news.type,
        reason=news.reason,
        message=news.message,
    )


def _text(ref: ReplicaRef | None) -> str:
    """A leader for the log."""
    return "none" if ref is None else str(ref)
