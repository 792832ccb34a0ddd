"""Users: what brokers allow and whom they let in, by what they have got of User objects.

A broker may still answer by what it knew before, or already by what it gets next: a request counts
only if everything that was in force while it was on its way says the same.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from e2e.sim.checkers.anomaly import Anomaly, Checker
from e2e.sim.history import History
from e2e.sim.users.history import Answer, Intent, Login, UserHistory

MOMENT_S: Final = 0.05
"""A running broker decides by what it has got after this time."""
REREAD_S: Final = 1.2
"""A broker reads the files of certificates again after this time; it is a second by its clock."""
PROMISED_S: Final = 2.2
"""A change of a User is in force on all brokers after this time, if nothing is wrong: two seconds,
and the time that messages need."""
LATE_SHARE: Final = 0.05
"""Clocks of brokers are wrong by less than this share."""

K = TypeVar("K", str, int)
N = TypeVar("N", Answer, Login)
T = TypeVar("T")


class _Timeline(Generic[T]):
    """What somebody got, in the order of time."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._values: list[T] = []

    def add(self, at_s: float, value: T) -> None:
        self._times.append(at_s)
        self._values.append(value)

    def between(self, from_s: float, to_s: float) -> Sequence[T]:
        """What was in force at any time in between; empty if nothing was known at its beginning."""
        first = bisect_right(self._times, from_s) - 1
        return () if first < 0 else self._values[first : bisect_right(self._times, to_s)]


def _timelines(notes: Iterable[tuple[K, float, T]]) -> dict[K, _Timeline[T]]:
    """Timelines of notes, each with whose it is, its time, and what was got."""
    found: dict[K, _Timeline[T]] = {}
    for whose, at_s, value in notes:
        found.setdefault(whose, _Timeline()).add(at_s, value)
    return found


def _in_force(
    of: Mapping[K, _Timeline[T]], whose: K, one: Answer | Login, within_s: float
) -> Sequence[T]:
    """All that may have been in force for a request: empty if that is not known, or if the broker
    did not run all the time."""
    from_s = one.asked_s - within_s
    if one.resumed_s >= from_s or whose not in of:
        return ()
    return of[whose].between(from_s, one.at_s)


def allowed_although_denied(history: History) -> Iterator[Anomaly]:
    """A broker allowed what the ACLs that it had deny."""
    for one, values in _judged_answers(history.users):
        if one.is_allowed and not any(values):
            yield _anomaly("allowed-although-denied", one, f"{_text(one)} at {one.process}")


def denied_although_allowed(history: History) -> Iterator[Anomaly]:
    """A broker denied what the ACLs that it had allow."""
    for one, values in _judged_answers(history.users):
        if not one.is_allowed and all(values):
            yield _anomaly("denied-although-allowed", one, f"{_text(one)} at {one.process}")


def _judged_answers(users: UserHistory) -> Iterator[tuple[Answer, list[bool]]]:
    """Each answer, with what each AccessList says that may have been in force for it."""
    listed = _timelines((one.process, one.at_s, one.rights) for one in users.listed)
    for one in users.answers:
        lists = _in_force(listed, one.process, one, MOMENT_S)
        if lists:
            yield one, [one.right in rights.get(one.principal, ()) for rights in lists]


def kept_connection(history: History) -> Iterator[Anomaly]:
    """A broker did not close a connection whose user was deleted, or has another password."""
    for one in history.users.kept:
        what = f"{one.client} at {one.process}, although {one.why}, t={one.at_s:.3f}"
        yield Anomaly("kept-connection", one.principal, what)


def expired_login(history: History) -> Iterator[Anomaly]:
    """A broker served a connection whose login had expired (KIP-368)."""
    for one in history.users.answers:
        end_s = one.login_s + (one.expires_s - one.login_s) * (1 + LATE_SHARE) + MOMENT_S
        if one.asked_s > end_s:
            what = f"{_text(one)} at {one.process}, expired at t={one.expires_s:.3f}"
            yield _anomaly("expired-login", one, what)


def wrong_password(history: History) -> Iterator[Anomaly]:
    """A broker accepted a password that is not the user's, or refused the one that is.

    It knows users by the AccessList, and their passwords by another object.
    """
    users = history.users
    listed = _timelines((one.process, one.at_s, one.rights.keys()) for one in users.listed)
    known = _timelines((one.process, one.at_s, one.passwords) for one in users.verifiable)
    for one in users.logins:
        if not one.password:
            continue
        lists = _in_force(listed, one.process, one, MOMENT_S)
        passwords = _in_force(known, one.process, one, MOMENT_S)
        if not lists or not passwords:
            continue
        is_listed = [f"User:{one.user}" in names for names in lists]
        is_its_own = [found.get(one.user) == one.password for found in passwords]
        if one.is_accepted and not (any(is_listed) and any(is_its_own)):
            yield _login_anomaly("wrong-password-accepted", one)
        elif not one.is_accepted and all(is_listed) and all(is_its_own):
            yield _login_anomaly("right-password-refused", one)


def removed_authority(history: History) -> Iterator[Anomaly]:
    """A broker accepted a certificate of a CA that its files had no more, or one that was not
    valid any more; or it refused a valid one of a CA that they had."""
    users = history.users
    trusted = _timelines((one.broker_id, one.at_s, one.authorities) for one in users.trusted)
    for one in users.logins:
        if one.password or not one.authority:
            continue
        found = _in_force(trusted, one.broker_id, one, REREAD_S)
        is_trusted = [one.authority in authorities for authorities in found]
        if one.is_accepted and not one.is_valid:
            yield _login_anomaly("expired-certificate-accepted", one)
        elif one.is_accepted and is_trusted and not any(is_trusted):
            yield _login_anomaly("removed-ca-accepted", one)
        elif not one.is_accepted and one.is_valid and is_trusted and all(is_trusted):
            yield _login_anomaly("certificate-refused", one)


def lost_certificate(history: History) -> Iterator[Anomaly]:
    """By a step of the clients CA, a user has a certificate that is not accepted everywhere."""
    for one in history.users.lost_certificates:
        yield Anomaly("lost-certificate", one.user, f"{one.why}, t={one.at_s:.3f}")


def late_change(history: History) -> Iterator[Anomaly]:
    """While nothing was wrong, a broker answered otherwise than a User object says, later than two
    seconds after its change."""
    users = history.users
    for calm in users.calm:
        for intent, until_s in _with_ends(users.intents):
            if intent.at_s < calm.from_s:
                continue
            from_s, to_s = intent.at_s + PROMISED_S, min(until_s, calm.to_s)
            since = f"its User was changed at t={intent.at_s:.3f}"
            for one in _asked_between(users.answers, from_s, to_s):
                if one.user == intent.user and _is_late(intent, one):
                    yield _anomaly("late-change", one, f"{_text(one)} at {one.process}: {since}")
            for login in _asked_between(users.logins, from_s, to_s):
                if login.user == intent.user and _is_late_login(intent, login):
                    yield _login_anomaly("late-change", login)


def _is_late(intent: Intent, one: Answer) -> bool:
    """Whether this answer is wrong, when the intent must be in force."""
    is_of_deleted = not intent.exists and one.login_s < intent.at_s
    return is_of_deleted or one.is_allowed != (one.right in intent.rights)


def _is_late_login(intent: Intent, one: Login) -> bool:
    """Whether the result of a login with a password is wrong then."""
    is_right = intent.exists and one.password == intent.password
    return bool(one.password) and one.is_accepted != is_right


def _with_ends(intents: Sequence[Intent]) -> Iterator[tuple[Intent, float]]:
    """Each intent, and when the next one of its user begins."""
    ends: dict[str, float] = {}
    for one in reversed(intents):
        yield one, ends.get(one.user, float("inf"))
        ends[one.user] = one.at_s


def _asked_between(all_: Sequence[N], from_s: float, to_s: float) -> Iterator[N]:
    """Those that were asked for and came in between; they are in the order of their time."""
    first = bisect_left(all_, from_s, key=lambda one: one.at_s)
    for one in all_[first:]:
        if one.at_s > to_s:
            return
        if one.asked_s >= from_s:
            yield one


def unserved(history: History) -> Iterator[Anomaly]:
    """In the end a user with all rights was not served by a broker."""
    for one in history.users.unserved:
        yield Anomaly("user-unserved", "", one)


def _anomaly(name: str, one: Answer, what: str) -> Anomaly:
    return Anomaly(name, one.principal, f"{what}, t={one.asked_s:.3f} to {one.at_s:.3f}")


def _text(one: Answer) -> str:
    operation, topic = one.right
    return f"{operation} of {topic} {'allowed' if one.is_allowed else 'denied'} to {one.client}"


def _login_anomaly(name: str, one: Login) -> Anomaly:
    proof = one.password or f"a certificate of {one.authority[:8]}"
    result = "accepted" if one.is_accepted else "refused"
    what = f"{proof} {result} by {one.process}, t={one.asked_s:.3f} to {one.at_s:.3f}"
    return Anomaly(name, one.user, what)


CHECKERS: Final[tuple[Checker, ...]] = (
    allowed_although_denied,
    denied_although_allowed,
    kept_connection,
    expired_login,
    wrong_password,
    removed_authority,
    lost_certificate,
    late_change,
    unserved,
)
