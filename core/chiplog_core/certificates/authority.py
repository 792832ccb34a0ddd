"""What to do next about a CA that the operator generates."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from chiplog_core.certificates.reports import NOBODY, Report, Reporters, are_so
from chiplog_core.model.certificates import CertificateAuthority
from chiplog_core.naming import labels

BACKDATED = timedelta(minutes=5)
"""How long before its issue a certificate becomes valid, because clocks differ."""

PUBLISHED_FOR = timedelta(minutes=3)
"""How long what clients read is published before it is relied on, because they report nothing: a
new cluster CA, and the new certificate of a user. The kubelet needs up to a minute and a half to
update a mounted Secret, and programs read it again then. Brokers of an older version, which report
nothing either, get the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """How long certificates are valid, and how early they are renewed."""

    validity: timedelta
    renewal: timedelta

    @classmethod
    def of(cls, authority: CertificateAuthority) -> "Term":
        """The term that the spec of a CA sets, also for what the CA issues."""
        return cls(
            validity=timedelta(days=authority.validity_days),
            renewal=timedelta(days=authority.renewal_days),
        )

    def is_due(self, not_after: datetime, now: datetime, latest: datetime | None = None) -> bool:
        """Whether a certificate is to be renewed. It is not if the new one would not be valid for
        longer; `latest` is the end of its issuer's certificate."""
        end = now + self.validity
        gains = min(end, latest or end) > not_after
        return gains and now >= not_after - self.renewal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaCertificate:
    """A certificate of a CA."""

    fingerprint: str
    """SHA-256 of the certificate, in hex."""
    key_id: str
    """SHA-256 of the public key, in hex."""
    not_before: datetime
    not_after: datetime
    is_authority: bool = True
    """Whether it may issue certificates."""

    @property
    def issued_at(self) -> datetime:
        return self.not_before + BACKDATED

    def is_usable(self, now: datetime) -> bool:
        """Whether it may issue certificates, and has not expired."""
        return self.is_authority and now < self.not_after

    def is_valid(self, now: datetime) -> bool:
        """Whether it is usable now. It is not valid yet if the clock was ahead when it was made: no
        client accepts it then."""
        return self.is_usable(now) and self.not_before <= now


class Request(StrEnum):
    """What users ask for with an annotation of a CA's Secret."""

    RENEW = labels.FORCE_RENEW
    REPLACE = labels.FORCE_REPLACE
    REMOVE_OLD = labels.REMOVE_OLD_CA


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A CA as its Secrets have it."""

    certificates: tuple[CaCertificate, ...] = ()
    """All published ones: clients trust them."""
    key_id: str = ""
    """Of the private key; empty if there is none."""
    requests: frozenset[Request] = frozenset()

    def current(self, now: datetime) -> CaCertificate | None:
        """The certificate to issue from: the one of the private key that is valid the longest."""
        own = [one for one in self.certificates if one.key_id == self.key_id and one.is_valid(now)]
        return max(own, key=lambda one: (one.not_after, one.fingerprint), default=None)

    @property
    def fingerprints(self) -> frozenset[str]:
        """Those of all published certificates."""
        return frozenset(one.fingerprint for one in self.certificates)

    def trust(self, reporters: Reporters, now: datetime) -> tuple[Report, ...]:
        """Which brokers trust the current certificate; empty if there is none."""
        current = self.current(now)
        if current is None:
            return ()
        return reporters.trusting(current.fingerprint, self.fingerprints)

    def trusted_keys(self, now: datetime) -> frozenset[str]:
        """The keys whose certificates are published and have not expired."""
        return frozenset(one.key_id for one in self.certificates if one.is_usable(now))


class Step(StrEnum):
    """The next thing to do. Each changes one Secret."""

    NOTHING = "nothing"
    MAKE_KEY = "make a key"
    SIGN = "sign a certificate for the key"
    REMOVE_OLD = "stop publishing all certificates but the current one"
    DROP_EXPIRED = "stop publishing expired certificates"


def next_step(
    authority: Authority,
    issued: Iterable["Issued"],
    term: Term,
    now: datetime,
    checked_by: Reporters = NOBODY,
) -> tuple[Step, frozenset[Request]]:
    """The next step for a generated CA, and the requests that it fulfils. `issued` are the
    certificates in use that the operator issued from the CA; `checked_by` are the brokers that
    check them."""
    asked, current = authority.requests, authority.current(now)
    if not authority.key_id or Request.REPLACE in asked:
        return Step.MAKE_KEY, asked & {Request.REPLACE}
    if current is None or Request.RENEW in asked or term.is_due(current.not_after, now):
        return Step.SIGN, asked & {Request.RENEW}
    if Request.REMOVE_OLD in asked and may_remove_old(authority, issued, now, checked_by):
        return Step.REMOVE_OLD, frozenset({Request.REMOVE_OLD})
    expired = any(not one.is_usable(now) for one in authority.certificates)
    return (Step.DROP_EXPIRED if expired else Step.NOTHING), frozenset()


def kept(authority: Authority, step: Step, now: datetime) -> tuple[CaCertificate, ...]:
    """The published certificates that stay published after the step: what one certificate of a key
    issued is valid with any certificate of this key, so `SIGN` replaces those of its key."""
    current = authority.current(now)
    return tuple(
        one
        for one in authority.certificates
        if one.is_usable(now)
        and not (step is Step.SIGN and one.key_id == authority.key_id)
        and not (step is Step.REMOVE_OLD and one is not current)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate that a CA issued."""

    issuer: str
    """The key id of the published CA certificate that issued it; empty if none of them did."""
    not_before: datetime
    not_after: datetime
    hosts: frozenset[str] = frozenset()
    """The names and addresses that it is valid for."""
    is_for_both_ends: bool = False
    """Whether it may be shown by a server and by a client."""
    fingerprint: str = ""
    """SHA-256 of the certificate, in hex."""
    is_shown: bool | None = None
    """Whether its owner is known to use it; None if its owner does not report that."""

    @property
    def issued_at(self) -> datetime:
        return self.not_before + BACKDATED

    def is_in_use(self, now: datetime) -> bool:
        """Whether its owner has it in place of an earlier one, by its report or by the time."""
        if self.is_shown is None:
            return now >= self.issued_at + PUBLISHED_FOR
        return self.is_shown


def may_remove_old(
    authority: Authority, issued: Iterable[Issued], now: datetime, checked_by: Reporters
) -> bool:
    """Whether nobody needs an older CA: every certificate is issued from the current key, and in
    use, and all brokers in `checked_by` trust the current CA."""
    current = authority.current(now)
    assert current is not None, "next_step signs one first"
    is_time_over = now >= current.issued_at + PUBLISHED_FOR
    return all(one.issuer == current.key_id and one.is_in_use(now) for one in issued) and are_so(
        authority.trust(checked_by, now), is_time_over=is_time_over
    )
