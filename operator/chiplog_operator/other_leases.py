"""Whether operators with other Leases leave this one its namespaces.

A Lease keeps the processes of one release apart. Two releases have two, each in the namespace of
its own pods, and where both watch one namespace, both would carry out what users write there.
So each holder writes the namespaces that it watches into its Lease, and one that would begin checks
at the Leases of all others first: the one that was there first continues, and the other one waits.

Two that begin at the same time hold their Leases before either sees the other. Then the older
Lease goes first, whose age is the API server's word and the same to both, and the other gives its
own back when it sees that. Where it does not, it had looked before there was anything to see, and
is active: then the older one goes.

A Lease is believed only of an account that may do what an operator does, in a shared namespace and
beyond any. Else everybody who may write Leases in a namespace of their own, or give accounts there
all rights, could keep the operator from starting again.

As in `chiplog_core.operator_lease.lease`, nobody compares clocks: a Lease is believed until it did
not change for a while by this process's own clock. That while is longer than a release needs to
hand its Lease on from one pod to the next, or a new version of it could lose its namespaces to the
operator that waits.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from chiplog_core.operator_lease.acquiring import Place
from chiplog_core.operator_lease.lease import Claim, ObservedLease
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import key_of, metadata
from chiplog_operator import lease

ALL = "*"
GONE_S = 30.0
"""A Lease that did not change for this long has no holder any more."""
FIRST_S = 10.0
"""The holder of the older Lease waits this long for the younger one to be released. Checks are a
second apart."""


@dataclass(frozen=True, slots=True)
class Age:
    """How old a Lease is; the smaller one is older."""

    created: str
    """The time of creation as the API server writes it; empty if the Lease does not exist."""
    namespace: str

    def is_older_than(self, other: "Age") -> bool:
        """Whether this Lease was created first. Of two created in the same second, the one in the
        namespace that sorts first counts as older."""
        # "~" sorts after all timestamps, so a Lease that does not exist is the youngest.
        return (self.created or "~", self.namespace) < (other.created or "~", other.namespace)


@dataclass(frozen=True, slots=True)
class ConflictingLease:
    """A Lease whose holder watches a namespace that this operator watches, too."""

    namespace: str
    """The namespace of the Lease, and of its holder's pod."""
    shared: str
    """`ALL`, or the names of the namespaces that both watch."""
    account: str
    """The ServiceAccount of its holder."""
    age: Age
    is_held: bool

    @property
    def shared_namespaces(self) -> tuple[str, ...]:
        """The shared namespaces for requests to the API server: an empty name means all."""
        return ("",) if self.shared == ALL else tuple(self.shared.split(","))

    def message(self) -> str:
        """What is wrong and what to do, for the user."""
        where = "all namespaces" if self.shared == ALL else f"namespace {self.shared}"
        return (
            f"the operator in namespace {self.namespace} also watches {where}, so this one does "
            "nothing: set watchNamespaces so that they do not overlap (and watchAllNamespaces in "
            "neither), or uninstall one of them. This one starts automatically when the Lease "
            f"chiplog-operator in namespace {self.namespace} has not changed for {GONE_S:.0f} s"
        )


@dataclass(slots=True)
class OtherLeases:
    """The Leases of all operators, as one process sees them."""

    namespace: str
    """The namespace of this process's own Lease."""
    claim: Claim
    _seen: dict[str, ObservedLease] = field(default_factory=dict)
    _created: dict[str, str] = field(default_factory=dict)
    _first_since_s: float | None = None

    def observe(self, leases: Iterable[Manifest], now_s: float) -> None:
        """Take over a complete list of operators' Leases, of which each namespace has at most one.

        `now_s` is monotonic. `ObservedLease` keeps since when a Lease has not changed.
        """
        found = {key_of(manifest).namespace: manifest for manifest in leases}
        self._seen = {
            namespace: self._seen.get(namespace, ObservedLease()).after_read(
                lease.read(lease_object), now_s
            )
            for namespace, lease_object in found.items()
        }
        self._created = {
            namespace: str(metadata(manifest).get("creationTimestamp") or "")
            for namespace, manifest in found.items()
        }

    def place(
        self, now_s: float, operators: Set[str], *, holds_lease: bool
    ) -> tuple[Place, ConflictingLease | None]:
        """Whether this process may be active, and the conflicting Lease that prevents it.

        `operators` are the namespaces of those Leases of `conflicts` whose accounts have an
        operator's permissions. A process that does not hold its Lease gives way to every
        conflicting one. A process that holds it gives way to an older Lease only; for a younger one
        it waits (`FIRST`). If that is not released in time, its holder was active before, and this
        process gives way.
        """
        others = [other for other in self.conflicts(now_s) if other.namespace in operators]
        if holds_lease:
            # A released Lease cannot be taken again while this process holds its own.
            others = [other for other in others if other.is_held]
        me = Age(self._created.get(self.namespace, ""), self.namespace)
        older = [other for other in others if not me.is_older_than(other.age)]
        if not others:
            self._first_since_s = None
            return Place.FREE, None
        if not holds_lease or older:
            self._first_since_s = None
            return Place.ASIDE, (older or others)[0]
        if self._first_since_s is None:
            self._first_since_s = now_s
        is_early = now_s - self._first_since_s < FIRST_S
        return Place.FIRST if is_early else Place.ASIDE, others[0]

    def conflicts(self, now_s: float) -> list[ConflictingLease]:
        """Every renewed Lease whose holder says that it watches a namespace of ours, even if it is
        no operator."""
        return [
            ConflictingLease(
                namespace=namespace,
                shared=shared,
                account=seen.record.claim.account,
                age=Age(self._created[namespace], namespace),
                is_held=bool(seen.record.holder),
            )
            for namespace, seen in sorted(self._seen.items())
            if namespace != self.namespace
            and seen.record is not None
            and seen.record.claim.account
            and now_s - seen.since_s < GONE_S
            and (shared := in_common(self.claim.watches, seen.record.claim.watches))
        ]


def in_common(mine: str, theirs: str) -> str:
    """The namespaces that two operators watch, as in the annotation `labels.WATCHES`. Empty if
    there are none, or one of the texts is."""
    if ALL in (mine, theirs):
        return theirs if mine == ALL else mine
    return ",".join(sorted(set(filter(None, mine.split(","))) & set(theirs.split(","))))


def as_watches(namespaces: Iterable[str]) -> str:
    """The text for the annotation `labels.WATCHES`: the namespaces' names, or `*` without names,
    which means all namespaces."""
    return ",".join(sorted(namespaces)) or ALL
