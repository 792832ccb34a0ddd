"""Says that another operator is in the way: to probes, in the log, and by an Event on the pod."""

import logging
from dataclasses import dataclass

from chiplog_core.model.actions import Announce, EventType
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi
from chiplog_operator.clock import SystemClock
from chiplog_operator.events import event
from chiplog_operator.http import Health

logger = logging.getLogger(__name__)

REASON = "AnotherOperator"
TELL_AGAIN_S = 600.0
"""An Event is forgotten after an hour, and this should not be."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of this process; without a uid it is no pod."""

    name: str
    namespace: str
    uid: str


class ConflictReporter:
    """What there is to say of one process."""

    def __init__(self, api: KubeApi, health: Health, pod: Pod) -> None:
        self._api = api
        self._health = health
        self._pod = pod
        self._reported_s: float | None = None

    async def report_conflict(self, message: str, now_s: float) -> None:
        """Be not ready, and repeat a log line and an Event from time to time."""
        is_news = message != self._health.conflict
        self._health.conflict = message
        if not is_news and self._reported_s is not None and now_s - self._reported_s < TELL_AGAIN_S:
            return
        self._reported_s = now_s
        logger.error("another_operator", extra={"problem": message})
        if self._pod.uid:
            await self._announce(message)

    def clear_conflict(self) -> None:
        """Be ready from now on.

        It is not ready before the first check, so that a new pod does not replace an old one too
        early.
        """
        if self._health.conflict:
            logger.info("no_other_operator")
        self._health.conflict = ""
        self._health.is_ready = True

    async def _announce(self, message: str) -> None:
        pod = self._pod
        announcement = Announce(
            kind=kinds.PODS.kind,
            api_version=kinds.PODS.api_version,
            metadata=Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid),
            type=EventType.WARNING,
            reason=REASON,
            message=message,
        )
        manifest = event(announcement, SystemClock().now(), pod.name)
        try:
            await self._api.create(kinds.EVENTS, manifest, field_manager=labels.OPERATOR)
        except ApiError as error:
            logger.warning("event_not_made", extra={"reason": REASON, "error": str(error)})
