"""Reports a conflict with another operator: to probes, in the log, and by an Event on the pod."""

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
"""The conflict is reported again this often: the API server deletes Events after an hour."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of this process. An empty uid means that it does not run in a pod."""

    name: str
    namespace: str
    uid: str


class ConflictReporter:
    """Reports conflicts of one process: in its readiness, its log and Events on its pod."""

    def __init__(self, api: KubeApi, health: Health, pod: Pod) -> None:
        self._api = api
        self._health = health
        self._pod = pod
        self._reported_s: float | None = None

    async def report_conflict(self, message: str, now_s: float) -> None:
        """Make this process not ready. A log line and an Event report the conflict, and again after
        `TELL_AGAIN_S`. `now_s` is monotonic."""
        is_news = message != self._health.conflict
        self._health.conflict = message
        if not is_news and self._reported_s is not None and now_s - self._reported_s < TELL_AGAIN_S:
            return
        self._reported_s = now_s
        logger.error("another_operator", extra={"problem": message})
        if self._pod.uid:
            await self._announce(message)

    def clear_conflict(self) -> None:
        """Make this process ready, because no other operator is in conflict with it.

        It is not ready before the first check. So a Deployment does not stop an old pod before the
        new one can take over.
        """
        if self._health.conflict:
            logger.info("no_other_operator")
        self._health.conflict = ""
        self._health.is_ready = True

    async def _announce(self, message: str) -> None:
        """Create an Event about this process's pod. A failure is logged."""
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
