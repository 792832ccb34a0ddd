"""A CA with its private key, and the certificates that it issued with theirs."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from chiplog_core.certificates.authority import (
    BACKDATED,
    Authority,
    Issued,
    Request,
    Step,
    Term,
    kept,
    next_step,
)
from chiplog_core.certificates.reports import NOBODY, Reporters
from chiplog_core.certificates.servers import Why
from chiplog_operator.certificates.facts import (
    ca_facts,
    fingerprint,
    leaf_facts,
    pem_of,
    read_certificates,
)
from chiplog_operator.certificates.issuing import (
    Owner,
    Validity,
    key_id,
    new_key,
    read_key,
    sign_authority,
    sign_leaf,
)
from chiplog_operator.certificates.truststore import Truststore

logger = logging.getLogger(__name__)

MAX_STEPS = 8
"""More than `next_step` ever takes until there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaMaterial:
    """A CA."""

    certificates: tuple[x509.Certificate, ...] = ()
    """All that are published, the newest first."""
    key: str = field(default="", repr=False)
    facts: Authority = field(default_factory=Authority)
    truststore: Truststore = field(default_factory=Truststore)
    """The certificates for Java; empty for a user's CA."""
    fulfilled: frozenset[Request] = frozenset()
    """Requests that were carried out since the Secrets were read."""

    @classmethod
    def read(cls, certificates: str, key: str, requests: frozenset[Request]) -> "CaMaterial":
        """The CA in the texts of its Secrets; both may be empty. Raises `ValueError`."""
        found = tuple(read_certificates(certificates)) if certificates.strip() else ()
        return cls._of(found, key, requests)

    @classmethod
    def _of(
        cls, certificates: tuple[x509.Certificate, ...], key: str, requests: frozenset[Request]
    ) -> "CaMaterial":
        facts = Authority(
            certificates=tuple(map(ca_facts, certificates)),
            key_id=key_id(read_key(key).public_key()) if key.strip() else "",
            requests=requests,
        )
        return cls(certificates=certificates, key=key, facts=facts)

    @property
    def pems(self) -> tuple[str, ...]:
        """The published certificates in PEM format."""
        return tuple(map(pem_of, self.certificates))

    def current(self, now: datetime) -> str:
        """The certificate to issue from, in PEM format; empty if there is none."""
        current = self.facts.current(now)
        wanted = "" if current is None else current.fingerprint
        return next((pem_of(one) for one in self.certificates if fingerprint(one) == wanted), "")

    def advanced(
        self,
        name: str,
        issued: Iterable[Issued],
        term: Term,
        now: datetime,
        checked_by: Reporters = NOBODY,
    ) -> "CaMaterial":
        """The CA after all that is to be done now. `name` is the subject of its certificates; the
        others as for `next_step`."""
        ca, leaves = self, tuple(issued)
        for _ in range(MAX_STEPS):
            step, done = next_step(ca.facts, leaves, term, now, checked_by)
            if step is Step.NOTHING:
                break
            logger.info("ca_changed", extra={"ca": name, "step": step.value})
            ca = replace(ca._after(step, name, term, now), fulfilled=ca.fulfilled | done)
            ca = replace(ca, facts=replace(ca.facts, requests=ca.facts.requests - done))
        return replace(ca, truststore=self.truststore.of(ca.certificates))

    def _after(self, step: Step, name: str, term: Term, now: datetime) -> "CaMaterial":
        requests = self.facts.requests
        if step is Step.MAKE_KEY:
            return self._of(self.certificates, new_key(), requests)
        wanted = {one.fingerprint for one in kept(self.facts, step, now)}
        published = tuple(one for one in self.certificates if fingerprint(one) in wanted)
        if step is Step.SIGN:
            validity = Validity(not_before=now - BACKDATED, not_after=now + term.validity)
            signed = read_certificates(sign_authority(self.key, name, validity))
            published = (*signed, *published)
        return self._of(published, self.key, requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafMaterial:
    """The certificate of a broker, of the operator or of a user."""

    certificate: str
    key: str = field(repr=False)
    facts: Issued

    @classmethod
    def read(
        cls, certificate: str, key: str, authorities: Sequence[x509.Certificate]
    ) -> "LeafMaterial | None":
        """The certificate in the texts of a Secret; None if it cannot be used."""
        try:
            facts = leaf_facts(certificate, authorities)
            public_key = read_certificates(certificate)[0].public_key()
            if key_id(read_key(key).public_key()) != key_id(public_key):
                return None
        except (ValueError, UnsupportedAlgorithm):
            return None
        return cls(certificate=certificate, key=key, facts=facts)

    @classmethod
    def issue(cls, ca: CaMaterial, owner: Owner, term: Term, now: datetime) -> "LeafMaterial":
        """A new certificate with a new key. It ends with that of the CA, at the latest."""
        key = new_key()
        validity = _leaf_validity(ca, term, now)
        certificate = sign_leaf((ca.current(now), ca.key), key, owner, validity)
        facts = leaf_facts(certificate, ca.certificates)
        return cls(certificate=certificate, key=key, facts=facts)


def _leaf_validity(ca: CaMaterial, term: Term, now: datetime) -> Validity:
    """The validity of a certificate that the CA issues now. It ends with that of the CA."""
    current = ca.facts.current(now)
    assert current is not None, "why_issued gave a reason"
    return Validity(
        not_before=now - BACKDATED, not_after=min(now + term.validity, current.not_after)
    )


def log_issue(name: str, why: Why) -> None:
    """Log that a certificate is issued."""
    logger.info("certificate_issued", extra={"certificate": name, "why": why.value})
