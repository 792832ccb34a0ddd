"""When a broker's Lease has expired: a state machine without a clock of its own.

A Lease counts as expired only after its full time of *uninterrupted working watch* without a
renewal. What was not watched proves nothing, so the time is counted again after a start, after a
reconnect, and after a stall of the operator's own loop: renewals may then be waiting unread. If
more than half of the brokers expire together, the API server is the likelier culprit than they
are, and one period more must pass.

A process that refuses connections (`planner.refusals`) counts as ended, too, but like an expired
Lease that is no proof: renewals take it back.

Times are milliseconds of one monotonic clock, the operator's. The times that brokers write into
their Leases are never compared with it; they only distinguish one renewal from the next.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, Incarnation

LEASE_MS = 6_000
"""How long a broker may go without renewing its Lease."""

STALL_MS = 2_000
"""If nobody asked the judge anything for longer, the operator itself stood still."""

CHECK_MS = 500
"""How often to ask, so that a working operator is never taken for one that stood still."""

RENEWALS_TO_RETURN = 2
"""This often a process renews after it was refused before it is believed to live. The first one may
have been on its way to us already when the process ended."""


@dataclass(slots=True)
class _Lease:
    """What was seen of one broker's Lease."""

    incarnation: Incarnation
    renew_time: str
    seen_ms: int
    is_alive: bool = False
    """It was seen to change, not only to be there."""
    is_suspected: bool = False
    """`suspects` has named it since it was last renewed."""
    is_confirmed: bool = False
    """It was checked again after that, and still was not renewed."""
    is_expired: bool = False


@dataclass(slots=True)
class _Refusal:
    """A process that nobody could connect to any more."""

    reason: str
    renewals: int = 0
    """Seen since."""


@dataclass(slots=True)
class LivenessJudge:
    """Judges the processes of one cluster. An expiry takes three steps, each a call from outside:
    `suspects` names the broker, a consistent list comes in by `renewed`, `ended` gives it up.
    """

    _watching_since_ms: int | None = None
    _last_call_ms: int | None = None
    _leases: dict[BrokerId, _Lease] = field(default_factory=dict)
    _terminated: dict[Incarnation, str] = field(default_factory=dict)
    _refused: dict[Incarnation, _Refusal] = field(default_factory=dict)

    def watching(self, now_ms: int) -> None:
        """The watch on Leases works from now on, after a start or a reconnect."""
        self._tick(now_ms)
        self._watching_since_ms = now_ms

    def interrupted(self, now_ms: int) -> None:
        """The watch on Leases broke. No Lease expires until it works again."""
        self._tick(now_ms)
        self._watching_since_ms = None

    def renewed(
        self, broker_id: BrokerId, incarnation: Incarnation, renew_time: str, now_ms: int
    ) -> None:
        """Record the state of a Lease, seen by the watch or in a list. The same state may be
        passed again."""
        self._tick(now_ms)
        lease = self._leases.get(broker_id)
        if lease is None or lease.incarnation != incarnation:
            self._leases[broker_id] = _Lease(incarnation, renew_time, now_ms)
        elif lease.renew_time != renew_time:
            self._leases[broker_id] = _Lease(incarnation, renew_time, now_ms, is_alive=True)
            self._has_renewed(incarnation)
        else:
            lease.is_confirmed = lease.is_suspected

    def forgotten(self, broker_id: BrokerId, now_ms: int) -> None:
        """The Lease does not exist any more. That proves nothing, but there is nothing to judge."""
        self._tick(now_ms)
        self._leases.pop(broker_id, None)

    def terminated(self, incarnation: Incarnation, reason: str) -> None:
        """The kubelet reports that this process ended. No renewal revokes that."""
        self._terminated.setdefault(incarnation, reason)
        self._refused.pop(incarnation, None)

    def refused(self, incarnation: Incarnation, reason: str) -> None:
        """The process refuses new connections. It counts as ended until it has renewed its Lease
        again."""
        if incarnation not in self._terminated:
            self._refused[incarnation] = _Refusal(reason)

    def suspects(self, now_ms: int) -> frozenset[BrokerId]:
        """The brokers whose Leases may have expired. The caller lists these Leases consistently,
        passes the result to `renewed`, and then calls `ended`."""
        self._tick(now_ms)
        due = frozenset(self._due(now_ms))
        for broker_id in due:
            self._leases[broker_id].is_suspected = True
        return due

    def ended(self, now_ms: int) -> Mapping[Incarnation, str]:
        """The processes that are certainly dead or whose Lease expired, each with the reason."""
        self._tick(now_ms)
        for broker_id in list(self._due(now_ms)):
            lease = self._leases[broker_id]
            lease.is_expired = lease.is_confirmed
        expired = {
            lease.incarnation: f"has not renewed its Lease for {LEASE_MS // 1000} s"
            for lease in self._leases.values()
            if lease.is_expired
        }
        refused = {incarnation: refusal.reason for incarnation, refusal in self._refused.items()}
        return {**expired, **refused, **self._terminated}

    def alive(self, now_ms: int) -> frozenset[Incarnation]:
        """The processes that renew their Leases and have not ended, for `World.renewing`."""
        self._tick(now_ms)
        return frozenset(
            lease.incarnation
            for lease in self._leases.values()
            if lease.is_alive and _is_valid(lease)
        ) - frozenset((*self._terminated, *self._refused))

    def running(self, now_ms: int) -> frozenset[BrokerId]:
        """The brokers whose Lease is held by a process that is not known to have ended, even if
        it never registered, for `World.running`. A process that refused a connection may be
        alive."""
        self._tick(now_ms)
        return frozenset(
            broker_id
            for broker_id, lease in self._leases.items()
            if _is_valid(lease) and lease.incarnation not in self._terminated
        )

    def next_check_ms(self, now_ms: int) -> int | None:
        """After how many milliseconds to call `suspects` again; None while there is nothing to
        judge."""
        self._tick(now_ms)
        if self._watching_since_ms is None or not any(map(_is_valid, self._leases.values())):
            return None
        return CHECK_MS

    def _has_renewed(self, incarnation: Incarnation) -> None:
        """A process renewed its Lease. After enough renewals a refused one counts as alive
        again."""
        refusal = self._refused.get(incarnation)
        if refusal is not None:
            refusal.renewals += 1
            if refusal.renewals >= RENEWALS_TO_RETURN:
                del self._refused[incarnation]

    def _tick(self, now_ms: int) -> None:
        """Note the time. If this process itself was stalled, all Leases get their full time
        again."""
        last_ms, self._last_call_ms = self._last_call_ms, now_ms
        if last_ms is None or self._watching_since_ms is None:
            return
        if now_ms - last_ms > STALL_MS:
            self._watching_since_ms = now_ms

    def _due(self, now_ms: int) -> Iterator[BrokerId]:
        """The brokers whose Lease was not renewed for too long. If most are late at once, they
        get twice the time, because the API server may be slow."""
        if self._watching_since_ms is None:
            return
        silent_ms = {
            broker_id: now_ms - max(lease.seen_ms, self._watching_since_ms)
            for broker_id, lease in self._leases.items()
            if _is_valid(lease) and lease.incarnation not in self._terminated
        }
        late = [broker_id for broker_id, silent in silent_ms.items() if silent >= LEASE_MS]
        patience_ms = 2 * LEASE_MS if 2 * len(late) > len(self._leases) else LEASE_MS
        yield from (broker_id for broker_id in late if silent_ms[broker_id] >= patience_ms)


def _is_valid(lease: _Lease) -> bool:
    """Whether the Lease has not expired."""
    return not lease.is_expired
