"""What brokers report of the certificates that they use, as far as the steps of a CA wait for it.

Unknown means stop: a broker that is down, or that starts just now, holds a step. A broker of an
older version reports nothing; for it a fixed time is waited for instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME
from chiplog_core.model.listener_certificate import ListenerCertificate

MAX_NAMED = 5
"""A message says of at most this many brokers what they lack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one broker reports of one question."""

    broker: str
    """As messages name it, like "broker 1"."""
    is_so: bool | None
    """None if its version does not report it."""
    why_not: str = ""
    """Why it is not so, or not known, like "is down"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporters:
    """The brokers of a cluster that serve clients, or may do so."""

    brokers: Mapping[BrokerId, Broker | None] = field(default_factory=dict)
    """None for one that should exist and has no object."""
    unreadable: Sequence[str] = ()
    """Names of Broker objects that cannot be parsed."""
    are_peers: bool = False
    """Whether the question is whom brokers trust between themselves, and not which users."""
    are_with_clients: bool = False
    """Whether clients check the same certificates, too. They report nothing."""

    @classmethod
    def of(
        cls,
        brokers: Mapping[BrokerId, Broker],
        wanted: Iterable[BrokerId] = (),
        unreadable: Iterable[str] = (),
    ) -> "Reporters":
        """All brokers that are not retired, and those that the cluster should have."""
        found: dict[BrokerId, Broker | None] = {
            one: broker for one, broker in brokers.items() if not broker.spec.retired
        }
        missing = [one for one in wanted if one not in brokers]
        return cls(
            brokers=dict(sorted({**dict.fromkeys(missing), **found}.items())),
            unreadable=tuple(sorted(unreadable)),
        )

    def as_peers(self, *, are_with_clients: bool = False) -> "Reporters":
        """The same brokers, asked whom they trust between themselves."""
        return replace(self, are_peers=True, are_with_clients=are_with_clients)

    def trusting(self, fingerprint: str, published: Set[str]) -> tuple[Report, ...]:
        """Whether each of them trusts this CA certificate, which is one of those that are
        published."""

        def why_not(one: ListenerCertificate) -> str:
            is_ready = not self._is_asked(one) or one.trusts(fingerprint, published)
            return "" if is_ready else _with_problem("does not trust it yet", one)

        return (*self._reports(why_not), *self._unreadable())

    def serving(self, broker_id: BrokerId, fingerprint: str, listeners: Set[str]) -> Report:
        """Whether a broker shows this certificate at all of these listeners that it has."""

        def why_not(one: ListenerCertificate) -> str:
            is_ready = one.listener not in listeners or one.fingerprint == fingerprint
            return "" if is_ready else _with_problem("shows another certificate", one)

        return _report(broker_id, self.brokers.get(broker_id), why_not)

    def trusting_others(self, published: Set[str]) -> tuple[str, ...]:
        """The brokers that, as far as they have reported, trust a CA certificate that is not
        published any more."""
        return tuple(
            f"broker {broker_id}"
            for broker_id, broker in self.brokers.items()
            if broker is not None
            and any(
                self._is_asked(one) and one.trusts_others(published)
                for one in broker.status.listener_certificates
            )
        )

    def _is_asked(self, one: ListenerCertificate) -> bool:
        """Whether the question is about this listener."""
        is_internal = one.listener == INTERNAL_LISTENER_NAME
        return one.checks_clients and is_internal is self.are_peers

    def _reports(self, why_not: Callable[[ListenerCertificate], str]) -> Iterator[Report]:
        return (_report(one, broker, why_not) for one, broker in self.brokers.items())

    def _unreadable(self) -> Iterator[Report]:
        for name in self.unreadable:
            yield Report(broker=f"Broker {name}", is_so=False, why_not="cannot be parsed")


NOBODY: Final = Reporters()


def _report(
    broker_id: BrokerId, broker: Broker | None, why_not: Callable[[ListenerCertificate], str]
) -> Report:
    """What a broker reports of its listeners; `why_not` returns what one of them lacks."""
    name = f"broker {broker_id}"
    if why := _why_unknown(broker):
        return Report(broker=name, is_so=False, why_not=why)
    assert broker is not None, "it would be unknown"
    reported = broker.status.listener_certificates
    if not reported:
        return Report(broker=name, is_so=None)
    why = next(filter(None, map(why_not, reported)), "")
    return Report(broker=name, is_so=not why, why_not=why)


def _why_unknown(broker: Broker | None) -> str:
    """Why nobody knows which certificates the broker uses now; empty if that is known, or if its
    version does not report it."""
    if broker is None:
        return "has no Broker object"
    spec, status = broker.spec, broker.status
    if spec.admitted_incarnation is None:
        return "has not been started yet"
    if spec.fenced:
        return "is down"
    is_in_session = (status.incarnation, status.session) == (
        spec.admitted_incarnation,
        spec.session,
    )
    if not is_in_session or any(one.fingerprint is None for one in status.listener_certificates):
        return "is starting"
    return ""


def _with_problem(lack: str, reported: ListenerCertificate) -> str:
    if not reported.problem:
        return lack
    return f"{lack}, because it cannot use the files of listener {reported.listener}"


def are_so(reports: Iterable[Report], *, is_time_over: bool) -> bool:
    """Whether it is so on every broker; on those that do not report it, if the time is over."""
    return all(is_time_over if one.is_so is None else one.is_so for one in reports)


def counted(reports: Sequence[Report]) -> str:
    """How many brokers have reported that it is so, like "2 of 3 brokers"."""
    done = sum(one.is_so is True for one in reports)
    return f"{done} of {len(reports)} {'broker' if len(reports) == 1 else 'brokers'}"


def lacking(reports: Sequence[Report]) -> str:
    """The brokers on which it is not so, like "broker 2 is down"; empty if there are none."""
    held = [f"{one.broker} {one.why_not}" for one in reports if one.is_so is False]
    more = len(held) - MAX_NAMED
    return ", ".join(held[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
