"""Sees a broker's process end before the kubelet does: by a connection kept to each of them.

One connection to the health port of every admitted process. When one ends, two new ones are tried;
where both are refused, and `chiplog_core.planner.leadership.refusals` has no doubt, the process
counts as ended. Whatever else happens here, as where a network policy forbids these connections,
costs nothing but that second: the kubelet's word and the Lease decide as ever.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from chiplog_core.naming import ports
from chiplog_core.observed.processes import Identity
from chiplog_core.planner.leadership.refusals import ATTEMPTS, Attempt, is_refusal, reason_to_doubt
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.health_port import ConnectProbe, IncarnationProbe, Net
from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.liveness import Liveness
from chiplog_operator.observe import Observer
from chiplog_operator.waking import Wake

logger = logging.getLogger(__name__)

ENDED_HOW: Final = "closed its connection and refuses new ones"
CONNECT_WITHIN_S: Final = 5.0
"""A refusal comes within milliseconds. The rest is for an operator that was busy for a moment."""
ANSWER_WITHIN_S: Final = 5.0
ATTEMPT_PAUSE_S: Final = 0.03
"""Pause before each attempt. A process that ends loses its connections some milliseconds before it
stops to listen, and a server that starts again listens by then."""
FIRST_BACKOFF_S: Final = 0.25
LAST_BACKOFF_S: Final = 5.0
COALESCE_S: Final = 0.1

Watched = tuple[ClusterKey, Identity]


class Refusals:
    """The connections of one active operator process."""

    def __init__(
        self,
        net: Net,
        caches: Caches,
        observer: Observer,
        liveness: Liveness,
        *,
        clock: Clock,
        changed: Wake,
    ) -> None:
        """`changed` is set when a broker or a pod may have changed."""
        self._net = net
        self._caches = caches
        self._observer = observer
        self._liveness = liveness
        self._clock = clock
        self._changed = changed
        self._loops = KeyedLoops[Watched, _Watch]("refusals")
        self._last_ended_ms: dict[ClusterKey, int] = {}

    async def run(self) -> None:
        """Keep a connection to each admitted process until cancelled."""
        async with self._loops.running(lambda process: _Watch(self, *process)):
            self._changed.set()
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._loops.keep(self._processes())
                await self._clock.sleep(COALESCE_S)

    def _processes(self) -> list[Watched]:
        """The admitted processes of all clusters."""
        return [
            (cluster, process)
            for cluster in sorted(self._caches.clusters())
            for process in self._observer.processes(cluster)
        ]

    async def watch(self, cluster: ClusterKey, process: Identity) -> None:
        """Keep a connection to one process until cancelled."""
        try:
            await self._keep(cluster, process)
        except Exception:
            # An exception in this optimization must not stop the operator.
            logger.exception("refusals_failed", extra=_facts(cluster, process))

    async def _keep(self, cluster: ClusterKey, process: Identity) -> None:
        """Keep a connection to one process. When it ends, try new ones: if they are refused, the
        process has ended. A connection that cannot be made is logged once."""
        backoff_s, is_logged = FIRST_BACKOFF_S, False
        while True:
            began_s = self._clock.monotonic_s()
            why_not = await self._probe_incarnation(process)
            if not why_not:
                is_logged = False
                if is_refusal(await self._attempts(process)):
                    self._refused(cluster, process)
            elif not is_logged:
                is_logged = True
                facts = _facts(cluster, process)
                logger.info("process_not_watched", extra={**facts, "reason": why_not})
            if self._clock.monotonic_s() - began_s > LAST_BACKOFF_S:
                backoff_s = FIRST_BACKOFF_S
            await self._clock.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, LAST_BACKOFF_S)

    async def _probe_incarnation(self, process: Identity) -> str:
        """Connect to a process, check its incarnation, and wait until the connection ends. Returns
        an empty text then; otherwise why there was no connection to this process."""
        connection = IncarnationProbe()
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await self._net.connect(connection, process.address, ports.HEALTH)
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answered = await connection.incarnation()
            if answered != process.incarnation:
                if answered:
                    return "another process answers at this address"
                return "the answer contains no incarnation"
            await connection.ended()
        except TimeoutError:
            return "no answer in time"
        except OSError as error:
            return str(error)
        finally:
            connection.close()
        return ""

    async def _attempts(self, process: Identity) -> list[Attempt]:
        """Try new connections until one is not refused; at most `ATTEMPTS`. Returns the result of
        each."""
        attempts: list[Attempt] = []
        while len(attempts) < ATTEMPTS:
            await self._clock.sleep(ATTEMPT_PAUSE_S)
            attempts.append(await self._attempt(process))
            if attempts[-1] is not Attempt.REFUSED:
                break
        return attempts

    async def _attempt(self, process: Identity) -> Attempt:
        """Connect once and close the connection. `SILENT` means any failure but a refusal."""
        connection = ConnectProbe()
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await self._net.connect(connection, process.address, ports.HEALTH)
        except ConnectionRefusedError:
            return Attempt.REFUSED
        except OSError:
            return Attempt.SILENT
        finally:
            connection.close()
        return Attempt.ANSWERED

    def _refused(self, cluster: ClusterKey, process: Identity) -> None:
        """Report a process that refuses connections as ended, unless the cluster's state gives a
        reason to doubt it."""
        now_ms = int(self._clock.monotonic_s() * 1000)
        world = self._observer.from_caches(cluster)
        why_not = reason_to_doubt(process, world, self._last_ended_ms.get(cluster), now_ms)
        facts = _facts(cluster, process)
        if why_not:
            logger.info("refusal_not_believed", extra={**facts, "reason": why_not})
            return
        self._last_ended_ms[cluster] = now_ms
        logger.info("process_refused", extra=facts)
        self._liveness.refused(cluster, process.incarnation, ENDED_HOW)


@dataclass(frozen=True, slots=True)
class _Watch:
    """The loop of one process."""

    refusals: Refusals
    cluster: ClusterKey
    process: Identity

    async def run(self) -> None:
        await self.refusals.watch(self.cluster, self.process)


def _facts(cluster: ClusterKey, process: Identity) -> dict[str, object]:
    """The fields of log lines about a process."""
    return {
        "cluster": str(cluster),
        "broker": process.broker_id,
        "incarnation": process.incarnation,
    }
