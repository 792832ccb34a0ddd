"""The clients CA of a cluster, as the loop of its users needs it."""

from dataclasses import dataclass
from datetime import datetime

from chiplog_core.certificates.authority import Term
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

    @property
    def identity(self) -> object:
        """Differs after every change of the CA."""
        if self.material is None:
            return self.problem
        facts = self.material.facts
        return facts.key_id, tuple(one.fingerprint for one in facts.certificates)

    def why_waiting(self, now: datetime) -> str:
        """What a new certificate waits for, in words; empty if it can be issued."""
        if self.material is None or self.material.facts.current(now) is None:
            return "the clients CA"
        if not may_issue(self.material.facts, now):
            return "brokers to trust the new certificate of the clients CA"
        return ""


class ClientsAuthority:
    """Reads the clients CA of one cluster, at most every `READ_AGAIN_S` if it can be used."""

    def __init__(self, reader: SecretsReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._found = ClientsCa()
        self._read_for: object = None
        self._read_at_s = 0.0

    async def read(self, cluster: BrokerCluster) -> ClientsCa:
        """The CA now. Raises `Unavailable`."""
        wish = Wishes.of(cluster).clients_ca
        if wish is None:
            self._read_for, self._found = None, ClientsCa()
            return self._found
        now_s, inputs = self._clock.monotonic_s(), (cluster.metadata.uid, wish)
        is_fresh = self._read_for == inputs and now_s - self._read_at_s < READ_AGAIN_S
        if is_fresh and not self._found.why_waiting(self._clock.now()):
            return self._found
        try:
            material = await self._reader.read_clients_ca(cluster, wish)
            self._found = ClientsCa(material=material, term=wish.term)
        except (Unusable, Taken) as why:
            self._found = ClientsCa(problem=str(why))
        self._read_for, self._read_at_s = inputs, now_s
        return self._found
