"""When a broker's Lease has expired: a state machine without a clock of its own.

A Lease counts as expired only if it was not renewed during its full time while the watch on it
worked without interruption. So the time begins again after a start and after a reconnect of the
watch. While the operator's own event loop was blocked, the time hardly passes, because the brokers
may have been stalled with it. It does not begin again: on a machine that is overloaded for long, no
Lease would ever expire. If more than half of the brokers are late at the same time, the API server
is the more likely cause, and twice the time must pass.

A process that refuses connections (`planner.leadership.refusals`) counts as ended, too. Like an
expired Lease this is not a proof: if the process renews its Lease, it counts as alive again.

Times are milliseconds of one monotonic clock, the operator's. The times that brokers write into
their Leases are never compared with it; they only distinguish one renewal from the next.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, Incarnation

LEASE_MS = 6_000
"""How long a broker may go without renewing its Lease."""

STALL_MS = 2_000
"""If no method of the judge was called for longer, the operator's own event loop was blocked."""

CHECK_MS = 500
"""How often the operator calls the `LivenessJudge`, far more often than `STALL_MS` requires. A
stall of the operator counts as only this time, whatever its length."""

RENEWALS_TO_RETURN = 2
"""How many renewals are required before a process that refused connections counts as alive. The
first one may have been sent before the process ended."""


@dataclass(slots=True)
class _Lease:
    """The observed state of one broker's Lease."""

    incarnation: Incarnation
    renew_time: str
    """The broker's own time of the renewal; only compared for equality."""
    seen_ms: int
    """When this renewal was first observed, in the time that counts (`_counted`)."""
    is_alive: bool = False
    """Whether a renewal was observed, and not only a Lease that existed before."""
    is_suspected: bool = False
    """Whether `suspects` has returned its broker since the last renewal."""
    is_confirmed: bool = False
    """Whether the Lease was read again after that, and still was not renewed."""
    is_expired: bool = False
    """Whether the broker counts as dead."""


@dataclass(slots=True)
class _Refusal:
    """A process that refuses connections."""

    reason: str
    renewals: int = 0
    """How many renewals of its Lease were observed since."""


@dataclass(slots=True)
class LivenessJudge:
    """Decides which broker processes of one cluster are alive.

    A Lease expires in three steps, each of which is a call by the operator: `suspects` returns the
    broker; the operator lists the Leases consistently and passes them to `renewed`; `ended` then
    reports the process as ended.
    """

    _watching_since_ms: int | None = None
    """Since when the watch on Leases works; None while it does not."""
    _last_call_ms: int | None = None
    _stalled_ms: int = 0
    """The time of all stalls, as far as it does not count."""
    _leases: dict[BrokerId, _Lease] = field(default_factory=dict)
    _terminated: dict[Incarnation, str] = field(default_factory=dict)
    """Processes that have ended for certain, with the reason."""
    _refused: dict[Incarnation, _Refusal] = field(default_factory=dict)

    def watching(self, now_ms: int) -> None:
        """The watch on Leases works from now on, after a start or a reconnect."""
        self._watching_since_ms = self._counted(now_ms)

    def interrupted(self, now_ms: int) -> None:
        """The watch on Leases broke. No Lease expires until it works again."""
        self._counted(now_ms)
        self._watching_since_ms = None

    def renewed(
        self, broker_id: BrokerId, incarnation: Incarnation, renew_time: str, now_ms: int
    ) -> None:
        """Record the state of a Lease, seen by the watch or in a list. The same state may be
        passed again."""
        seen_ms = self._counted(now_ms)
        lease = self._leases.get(broker_id)
        if lease is None or lease.incarnation != incarnation:
            self._leases[broker_id] = _Lease(incarnation, renew_time, seen_ms)
        elif lease.renew_time != renew_time:
            self._leases[broker_id] = _Lease(incarnation, renew_time, seen_ms, is_alive=True)
            self._has_renewed(incarnation)
        else:
            # The same state again: if the Lease was suspected, that is confirmed.
            lease.is_confirmed = lease.is_suspected

    def forgotten(self, broker_id: BrokerId, now_ms: int) -> None:
        """The Lease does not exist any more. Its broker is then neither alive nor expired."""
        self._counted(now_ms)
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
        due = frozenset(self._due(self._counted(now_ms)))
        for broker_id in due:
            self._leases[broker_id].is_suspected = True
        return due

    def ended(self, now_ms: int) -> Mapping[Incarnation, str]:
        """The processes that are certainly dead, refuse connections, or whose Lease expired, each
        with the reason. A late Lease expires only if it was read again after `suspects` returned
        its broker."""
        for broker_id in list(self._due(self._counted(now_ms))):
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
        self._counted(now_ms)
        return frozenset(
            lease.incarnation
            for lease in self._leases.values()
            if lease.is_alive and _is_valid(lease)
        ) - frozenset((*self._terminated, *self._refused))

    def running(self, now_ms: int) -> frozenset[BrokerId]:
        """The brokers whose Lease is held by a process that is not known to have ended, even if
        it never registered, for `World.running`. A process that refused a connection may be
        alive."""
        self._counted(now_ms)
        return frozenset(
            broker_id
            for broker_id, lease in self._leases.items()
            if _is_valid(lease) and lease.incarnation not in self._terminated
        )

    def silent_ms(self, brokers: Iterable[BrokerId], now_ms: int) -> Mapping[BrokerId, int]:
        """For how many milliseconds nobody has renewed the Leases of these brokers, although the
        watch worked, for `World.silent_ms`. Empty while the watch does not work."""
        counted_ms, since_ms = self._counted(now_ms), self._watching_since_ms
        if since_ms is None:
            return {}
        return {
            broker_id: counted_ms - max(lease.seen_ms, since_ms)
            if (lease := self._leases.get(broker_id)) is not None
            else counted_ms - since_ms
            for broker_id in brokers
        }

    def next_check_ms(self, now_ms: int) -> int | None:
        """After how many milliseconds to call `suspects` again; None while there is nothing to
        judge."""
        self._counted(now_ms)
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

    def _counted(self, now_ms: int) -> int:
        """Note a call, and return the time that counts: `now_ms` without the time of stalls."""
        last_ms, self._last_call_ms = self._last_call_ms, now_ms
        if last_ms is not None and now_ms - last_ms > STALL_MS:
            self._stalled_ms += now_ms - last_ms - CHECK_MS
        return now_ms - self._stalled_ms

    def _due(self, counted_ms: int) -> Iterator[BrokerId]:
        """The brokers whose Lease was not renewed in time. If more than half of all are late, they
        get twice the time, because the API server may be slow. `counted_ms` is the present time as
        `_counted` returns it."""
        if self._watching_since_ms is None:
            return
        unrenewed_ms = {
            broker_id: counted_ms - max(lease.seen_ms, self._watching_since_ms)
            for broker_id, lease in self._leases.items()
            if _is_valid(lease) and lease.incarnation not in self._terminated
        }
        late = [broker_id for broker_id, age_ms in unrenewed_ms.items() if age_ms >= LEASE_MS]
        most_are_late = 2 * len(late) > len(self._leases)
        limit_ms = 2 * LEASE_MS if most_are_late else LEASE_MS
        yield from (broker_id for broker_id in late if unrenewed_ms[broker_id] >= limit_ms)


def _is_valid(lease: _Lease) -> bool:
    """Whether the Lease has not expired."""
    return not lease.is_expired
