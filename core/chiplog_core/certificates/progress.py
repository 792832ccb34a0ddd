"""Where the replacement of a CA stands, in words for its user."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from chiplog_core.certificates.authority import PUBLISHED_FOR, Authority, Issued, Request
from chiplog_core.certificates.reports import Report, counted, lacking
from chiplog_core.naming import labels

MAX_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A CA with what depends on it."""

    name: str
    """As messages name it: "cluster CA" or "clients CA"."""
    owners: str
    """Whose certificates it issues: "brokers" or "users"."""
    secret: str
    """The Secret with its certificates."""
    authority: Authority
    issued: Sequence[Issued]
    trust: Sequence[Report] = ()
    """Which brokers trust the current certificate: for clients, or for each other."""
    are_with_clients: bool = False
    """Whether clients check what it issues. They report nothing."""
    shown: Sequence[Report] = ()
    """Of the cluster CA: which brokers show the certificates that they should."""
    trusting_others: Sequence[str] = ()
    """The brokers that trust what is not published any more."""


def progress(of: Replacement, now: datetime) -> str:
    """Where it stands; empty if there is only one key, and brokers trust no other certificate."""
    current = of.authority.current(now)
    if current is None:
        return ""
    if of.authority.trusted_keys(now) == {current.key_id}:
        return _still_trusted(of)
    outstanding = _outstanding(of, current.key_id, current.issued_at + PUBLISHED_FOR, now)
    return f"the {of.name} has a new key: {next(outstanding)}"


def _outstanding(of: Replacement, key: str, until: datetime, now: datetime) -> Iterator[str]:
    """What is to be done, the first first. Who reports nothing has time `until` then."""
    if held := lacking(of.trust):
        yield f"{counted(of.trust)} trust it; its certificates wait for the others ({held})"
    is_reported = bool(of.trust) and all(one.is_so for one in of.trust)
    if now < until and (of.are_with_clients or not is_reported):
        are_clients = of.are_with_clients or not of.trust
        who = "clients" if are_clients else "brokers of an older version"
        yield f"{who} have until {_time(until)} to read it from Secret {of.secret}"
    have = sum(one.issuer == key for one in of.issued)
    if have < len(of.issued):
        yield f"{have} of {len(of.issued)} certificates of {of.owners} are issued from it"
    if held := lacking(of.shown):
        yield f"{counted(of.shown)} show their certificates of it ({held})"
    last = max((_in_use_at(one) for one in of.issued if one.is_shown is None), default=now)
    if now < last:
        yield f"{of.owners} have until {_time(last)} to use their certificates of it"
    yield _old_one(of, key, now)


def _old_one(of: Replacement, key: str, now: datetime) -> str:
    """The message when nothing that the operator issued needs the old CA any more."""
    done = f"all {of.owners} have certificates of it"
    if Request.REMOVE_OLD in of.authority.requests:
        return f"{done}, and the old one is about to be removed"
    others = [one for one in of.authority.certificates if one.key_id != key and one.is_usable(now)]
    until = _time(max(one.not_after for one in others))
    return (
        f"{done}; the old one is trusted until {until}, or until Secret {of.secret} is annotated "
        f"with {labels.REMOVE_OLD_CA}=true"
    )


def _still_trusted(of: Replacement) -> str:
    """The message while brokers trust what is not published any more."""
    if not of.trusting_others:
        return ""
    more = len(of.trusting_others) - MAX_NAMED
    named = ", ".join(of.trusting_others[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"certificates of the {of.name} that are not in Secret {of.secret} any more are still "
        f"trusted by {named}"
    )


def _in_use_at(one: Issued) -> datetime:
    return one.issued_at + PUBLISHED_FOR


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
