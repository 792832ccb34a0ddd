"""The clients CA of a cluster, as the loop of its users needs it."""

from dataclasses import dataclass, replace
from datetime import datetime

from chiplog_core.certificates.authority import Term
from chiplog_core.certificates.reports import NOBODY, Reporters, lacking
from chiplog_core.certificates.servers import may_issue
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_operator.certificates.keeper import READ_AGAIN_S
from chiplog_operator.certificates.material import CaMaterial
from chiplog_operator.certificates.reading import SecretsReader, Unusable
from chiplog_operator.certificates.wishes import Wishes
from chiplog_operator.clock import Clock
from chiplog_operator.taken import Taken


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsCa:
    """A clients CA, or why there is none."""

    material: CaMaterial | None = None
    term: Term | None = None
    problem: str = ""
    """What users must correct; empty if nothing."""
    brokers: Reporters = NOBODY
    """Those who check the certificates of users."""
    was_trusted: bool = False
    """Whether certificates could be issued at some time since the CA has changed."""

    @property
    def identity(self) -> object:
        """Differs after every change of the CA, and when brokers trust it."""
        if self.material is None:
            return self.problem
        return *self.content, self.was_trusted

    @property
    def content(self) -> tuple[object, ...]:
        """What the CA's Secrets have."""
        facts = None if self.material is None else self.material.facts
        return () if facts is None else (facts.key_id, facts.fingerprints)

    def can_issue(self, now: datetime) -> bool:
        """Whether there is a certificate to issue from, trusted or not."""
        return self.material is not None and self.material.facts.current(now) is not None

    def why_waiting(self, now: datetime) -> str:
        """What a new certificate waits for, in words; empty if it can be issued."""
        if self.material is None or not self.can_issue(now):
            return "the clients CA"
        if not may_issue(self.material.facts, now, self.brokers):
            why = lacking(self.material.facts.trust(self.brokers, now))
            return f"brokers to trust the new certificate of the clients CA{why and f' ({why})'}"
        return ""


class ClientsAuthority:
    """Reads the clients CA of one cluster, at most every `READ_AGAIN_S` if it can be used."""

    def __init__(self, reader: SecretsReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._found = ClientsCa()
        self.waits_for_brokers = False
        """Whether the CA is there, and brokers do not trust it yet."""
        self._read_for: object = None
        self._read_at_s = 0.0

    async def read(self, cluster: BrokerCluster, brokers: Reporters) -> ClientsCa:
        """The CA now, as these brokers trust it. Raises `Unavailable`."""
        before, now = self._found, self._clock.now()
        found = replace(await self._read(cluster), brokers=brokers)
        is_trusted = found.material is not None and may_issue(found.material.facts, now, brokers)
        self.waits_for_brokers = found.can_issue(now) and not is_trusted
        was_trusted = before.was_trusted and before.content == found.content
        self._found = replace(found, was_trusted=is_trusted or was_trusted)
        return self._found

    async def _read(self, cluster: BrokerCluster) -> ClientsCa:
        """What the Secrets have, read again if that is due. Raises `Unavailable`."""
        wish = Wishes.of(cluster).clients_ca
        if wish is None:
            self._read_for = None
            return ClientsCa()
        now_s, inputs = self._clock.monotonic_s(), (cluster.metadata.uid, wish)
        is_fresh = self._read_for == inputs and now_s - self._read_at_s < READ_AGAIN_S
        if is_fresh and self._found.can_issue(self._clock.now()):
            return self._found
        try:
            material = await self._reader.read_clients_ca(cluster, wish)
            found = ClientsCa(material=material, term=wish.term)
        except (Unusable, Taken) as why:
            found = ClientsCa(problem=str(why))
        self._read_for, self._read_at_s = inputs, now_s
        return found
