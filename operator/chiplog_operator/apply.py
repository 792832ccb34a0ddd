"""Makes a cluster's Kubernetes objects what the builders say they should be.

What is there as it was applied is left alone, so that a quiet cluster costs no writes. What others
changed by hand is applied again at the next pass, but not at every one, should somebody insist;
what cannot be watched is applied every ten minutes.

An object that has the name of one of ours and is somebody else's is left as it is: nobody's Secret
is mounted, and nobody's Service taken, because of its name. While there is one, no broker is
started. What is created is created by a request that fails where something is there; what is
written to is named by its uid.

Only kinds without data are ever deleted (those the builders make), and a broker's objects only
when its Broker is retired. Brokers and PartitionMaps are never touched; volume claims only to grow
them, and to say who owns them (`claim_owners`).
"""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels, names
from chiplog_core.planner.brokers.node_ports import node_ports_of
from chiplog_core.quantities import quantity_value
from chiplog_kube import kinds
from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeApi,
    Manifest,
    NotFound,
    Unavailable,
    get_or_none,
)
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import annotations_of, key_of, labels_of, metadata, uid_of
from chiplog_operator import views
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.certificates.issued_to_users import IssuedToUsers
from chiplog_operator.certificates.keeper import (
    NO_CERTIFICATES,
    READ_AGAIN_S,
    CertificateKeeper,
    Certified,
)
from chiplog_operator.certificates.own import OwnCertificates
from chiplog_operator.certificates.wishes import needs_certificates
from chiplog_operator.claim_owners import ClaimOwners
from chiplog_operator.claim_patches import patch_claim
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.resources import build
from chiplog_operator.resources.outside import tls_routes
from chiplog_operator.resources.restart_reasons import restart_reasons
from chiplog_operator.resources.secret import internal_secret, password_of
from chiplog_operator.resources.services import HeldPorts
from chiplog_operator.resources.settings import BuildSettings
from chiplog_operator.resources.stateful_set import must_be_recreated
from chiplog_operator.resources.volumes import DATA_VOLUME
from chiplog_operator.taken import Taken, check_ours
from chiplog_operator.tls_routes import TlsRoutes
from chiplog_operator.writes import ENDING_NAMESPACE, IN_FLIGHT, Authority, NotActive

logger = logging.getLogger(__name__)

APPLY_AGAIN_S = 600.0
TAKE_BACK_AGAIN_S = 10.0
"""If another client keeps changing an object, it is applied again this often, not in each pass."""
DESIRED_FIELDS = ("data", "roleRef", "rules", "spec", "subjects")
"""Fields that hold the desired state, in all kinds that the operator applies."""
PORT_IS_TAKEN = "port is already allocated"
"""What the API server says of a node port that another Service has."""
CLASS_STAYS = "may not change once set"
"""What the API server says of another loadBalancerClass for a Service."""
KIND_OF: Mapping[str, Kind] = {kind.kind: kind for kind in build.KINDS}


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of applying a cluster's objects: problems for an Event, and when to try again."""

    problems: tuple[str, ...] = ()
    is_unfinished: bool = False
    requeue_after_s: float = APPLY_AGAIN_S
    """Seconds until the first object is due to be applied again."""


@dataclass(frozen=True, slots=True)
class _Made:
    """An object as the API server returned it."""

    wanted_hash: str
    at_s: float
    live: Manifest = field(repr=False)

    def was_changed(self, live: Manifest) -> bool:
        """Whether another client changed the object's desired state since the operator wrote it.
        `live` is the object as it is cached now."""
        return live is not self.live and _desired_fields(live) != _desired_fields(self.live)


@dataclass(slots=True)
class _Known:
    """What the applier remembers about one cluster between passes."""

    password: str = field(default="", repr=False)
    at: dict[tuple[str, str], "_Made"] = field(default_factory=dict, repr=False)
    """The applied objects by kind and name."""
    is_taken: bool = False
    """Whether the pass in progress found that an object of somebody else has a name that the
    cluster needs. Brokers are not started then."""
    certified: Certified = NO_CERTIFICATES
    has_certificates: bool = False
    """Whether brokers find all certificates that they mount."""
    wanted_inputs: object = None
    wanted: list[Manifest] = field(default_factory=list, repr=False)
    """The manifests made from `wanted_inputs`, kept because these seldom change."""
    revision_spec: BrokerCluster | None = None
    revision: str = ""
    restart_reasons: tuple[str, ...] = ()


class Applier:
    """Applies for all clusters of one operator process."""

    def __init__(  # noqa: PLR0913 - its ports
        self,
        api: KubeApi,
        caches: Caches,
        *,
        clock: Clock,
        authority: Authority,
        broker_image: str,
        operator_namespace: str = "",
        issued_to_users: IssuedToUsers | None = None,
        own_certificates: OwnCertificates | None = None,
    ) -> None:
        self._api = api
        self._caches = caches
        self._clock = clock
        self._authority = authority
        self._broker_image = broker_image
        self._operator_namespace = operator_namespace
        self._known: dict[ClusterKey, _Known] = {}
        self._claim_owners = ClaimOwners(api, caches, authority)
        self._tls_routes = TlsRoutes(api, clock, authority)
        self._certificates = CertificateKeeper(api, clock, issued_to_users, own_certificates)

    def revisions(
        self, cluster: BrokerCluster | None, brokers: Iterable[BrokerId]
    ) -> dict[BrokerId, str]:
        """The revision that each broker's pod should have, the same for all of them. Empty without
        a cluster, and as long as its brokers would lack certificates: StatefulSets are not changed
        then, so a restart would change nothing."""
        if cluster is None:
            return {}
        known = self._known_of(cluster)
        if needs_certificates(cluster) and not known.has_certificates:
            return {}
        stable_cluster = build.without_volatile_fields(cluster)
        if known.revision_spec != stable_cluster:
            # The password is not part of a revision, so any text will do.
            settings = BuildSettings(broker_image=self._broker_image, internal_password="-")  # noqa: S106
            revision = build.revision(cluster, settings)
            if known.revision_spec is not None and revision != known.revision:
                known.restart_reasons = restart_reasons(
                    known.revision_spec, stable_cluster, settings
                )
            known.revision_spec, known.revision = stable_cluster, revision
        return dict.fromkeys(brokers, known.revision)

    def restart_reasons(self, key: ClusterKey) -> tuple[str, ...]:
        """The fields of the spec that last changed the revision. Empty if this process did not
        observe that change."""
        known = self._known.get(key)
        return () if known is None else known.restart_reasons

    def certified(self, key: ClusterKey) -> Certified:
        """The certificates of the cluster, as of the last time that it was applied."""
        known = self._known.get(key)
        return NO_CERTIFICATES if known is None else known.certified

    async def apply(
        self,
        cluster: BrokerCluster,
        wanted_brokers: Sequence[BrokerId],
        brokers: Mapping[BrokerId, Broker],
    ) -> Applied:
        """Create and change the objects of the cluster and its wanted brokers, and delete those of
        retired brokers. Problems are returned, not raised."""
        key, known = _key(cluster), self._known_of(cluster)
        known.has_certificates = False
        try:
            known.password = known.password or await self._password(cluster)
            known.certified = await self._certificates.update(
                cluster, wanted_brokers, brokers, self._caches.service_addresses(key)
            )
        except Unavailable:
            return Applied(is_unfinished=True)
        except Taken as taken:
            return Applied((str(taken),), is_unfinished=True)
        except ApiError as error:
            return Applied(
                (f"Secret {names.internal_secret(cluster.metadata.name)} cannot be read: {error}",)
            )
        wanted = self._wanted(known, cluster, wanted_brokers, node_ports_of(brokers.values()))
        # One result per write, as `_try_one` returns it.
        results: list[str | None] = [*known.certified.problems]
        again_s = READ_AGAIN_S if needs_certificates(cluster) else APPLY_AGAIN_S
        waits_s, known.is_taken, is_written = [again_s], False, True
        for kind in build.KINDS:
            # StatefulSets come last: no broker may start with a Secret of somebody else, or lack
            # one that it mounts.
            known.has_certificates = known.certified.may_start and is_written and not known.is_taken
            if kind is kinds.STATEFUL_SETS and not known.has_certificates:
                break
            of_kind = [manifest for manifest in wanted if manifest["kind"] == kind.kind]
            with_waits = [(self._due_in_s(key, kind, manifest), manifest) for manifest in of_kind]
            waits_s += [wait_s for wait_s, _ in with_waits if wait_s > 0]
            written = await self._apply_all(
                key, kind, [manifest for wait_s, manifest in with_waits if wait_s <= 0]
            )
            results += written
            if kind is kinds.SECRETS:
                is_written = all(result is None for result in written)
        routes = [build.with_hash(one) for one in tls_routes(cluster, wanted_brokers)]
        results += await self._tls_routes.update(cluster, routes)
        results += await self._grow_claims(key, cluster)
        results += await self._claim_owners.update(key, cluster)
        keep = {(manifest["kind"], key_of(manifest).name) for manifest in wanted}
        for kind, live in self._unwanted(key, cluster, keep):
            if _may_delete(live, wanted_brokers, brokers):
                results.append(await self._delete(kind, live))
        return Applied(
            # An empty text is no problem, but asks for another attempt.
            problems=tuple(problem for problem in results if problem),
            is_unfinished=any(problem is not None for problem in results),
            requeue_after_s=min(waits_s),
        )

    async def release_claims(self, cluster: BrokerCluster) -> None:
        """Release the volume claims that the cluster should not own, although the rest of its spec
        is not applied: nothing is lost by that."""
        await self._claim_owners.update(_key(cluster), cluster, may_own=False)

    def _known_of(self, cluster: BrokerCluster) -> _Known:
        return self._known.setdefault(_key(cluster), _Known())

    def _wanted(
        self,
        known: _Known,
        cluster: BrokerCluster,
        brokers: Sequence[BrokerId],
        node_ports: HeldPorts,
    ) -> list[Manifest]:
        """All manifests of the cluster. They are cached and must not be changed."""
        settings = BuildSettings(
            broker_image=self._broker_image,
            internal_password=known.password,
            operator_namespace=self._operator_namespace,
        )
        secrets_ = known.certified.secrets
        inputs = (
            build.without_volatile_fields(cluster),
            tuple(brokers),
            settings,
            node_ports,
            secrets_,
        )
        if known.wanted_inputs != inputs:
            known.wanted_inputs = inputs
            known.wanted = build.manifests(cluster, brokers, settings, node_ports, secrets_)
        return known.wanted

    async def _password(self, cluster: BrokerCluster) -> str:
        """The password in the cluster's Secret; a new one if there is no such Secret, or no
        password in it. Raises `Taken`."""
        name = names.internal_secret(cluster.metadata.name)
        try:
            secret = await self._api.get(kinds.SECRETS, cluster.metadata.namespace, name)
        except NotFound:
            return secrets.token_urlsafe(32)
        # Only metadata are compared, so any password will do.
        check_ours(kinds.SECRETS, secret, internal_secret(cluster, "-"))
        return password_of(secret) or secrets.token_urlsafe(32)

    async def _apply_all(
        self, key: ClusterKey, kind: Kind, due: Sequence[Manifest]
    ) -> list[str | None]:
        """Apply the manifests of one kind. Returns for each the result of `_try_one`."""

        async def one(manifest: Manifest) -> str | None:
            return await self._try_one(key, kind, manifest)

        return await run_concurrently(one, due, max_concurrent=IN_FLIGHT)

    def _due_in_s(self, key: ClusterKey, kind: Kind, wanted: Manifest) -> float:
        """The seconds until the manifest is to be applied. 0 or less means now.

        It is applied now if it differs from the last applied one, or the object in the cache was
        made from another manifest. Objects of kinds without a cache are not watched, so they are
        applied again from time to time.
        """
        wanted_hash = annotations_of(wanted)[labels.MANIFEST_HASH]
        applied = self._known[key].at.get((kind.kind, key_of(wanted).name))
        if applied is None or applied.wanted_hash != wanted_hash:
            return 0.0
        age_s = self._clock.monotonic_s() - applied.at_s
        if kind not in self._caches:
            return APPLY_AGAIN_S - age_s
        live = self._caches[kind].get(*key_of(wanted))
        if live is None or annotations_of(live).get(labels.MANIFEST_HASH) != wanted_hash:
            return 0.0
        # A broker changes its Lease with every renewal.
        was_changed = kind is not kinds.LEASES and applied.was_changed(live)
        return (TAKE_BACK_AGAIN_S if was_changed else APPLY_AGAIN_S) - age_s

    async def _try_one(self, key: ClusterKey, kind: Kind, wanted: Manifest) -> str | None:
        """Apply one manifest.

        Returns None if it is applied, a text for the user if it is refused, and an empty text if
        only another attempt is needed. Raises `NotActive`.
        """
        if not self._authority.is_held():
            raise NotActive
        name = key_of(wanted).name
        known = self._known[key]
        try:
            written = await self._apply_one(key, kind, wanted)
        except Taken as taken:
            known.at.pop((kind.kind, name), None)
            known.is_taken = True
            return str(taken)
        except (Conflict, NotFound, Unavailable) as error:
            logger.info(
                "apply_again", extra={"kind": kind.kind, "object": name, "error": str(error)}
            )
            return ""
        except ApiError as error:
            if ENDING_NAMESPACE in str(error):
                return ""  # nothing can be done, and it is no problem
            known.at.pop((kind.kind, name), None)
            return f"{kind.kind} {name} is refused: {error}{_remedy(error)}"
        if written is None or "deletionTimestamp" in metadata(written):
            return ""  # the old object is still being deleted
        if kind in self._caches:
            self._caches[kind].put(written)
        wanted_hash = annotations_of(wanted)[labels.MANIFEST_HASH]
        known.at[kind.kind, name] = _Made(wanted_hash, self._clock.monotonic_s(), written)
        return None

    async def _apply_one(self, key: ClusterKey, kind: Kind, wanted: Manifest) -> Manifest | None:
        """Create or change one object, and return it as written. None if it is to be tried again,
        because an old object must be deleted or read first. Raises `Taken` and `ApiError`s."""
        if kind in self._caches:
            live = self._caches[kind].get(*key_of(wanted))
        else:
            live = await get_or_none(self._api, kind, *key_of(wanted))
        if live is None:
            if kind is kinds.STATEFUL_SETS:
                await self._check_claim(wanted)
            try:
                return await self._api.apply_new(kind, wanted, field_manager=labels.OPERATOR)
            except AlreadyExists:
                if kind is kinds.SECRETS:
                    # The Secret exists with another content: the next pass reads it.
                    self._known[key].password = ""
                    self._certificates.forget(key)
                    return None
                # The object lacks the label by which the cache selects objects.
                live = await self._api.get(kind, *key_of(wanted))
        check_ours(kind, live, wanted)
        if kind is kinds.STATEFUL_SETS and must_be_recreated(live, wanted):
            await self._recreate(live)
            return None
        with_uid = {**wanted, "metadata": {**wanted["metadata"], "uid": uid_of(live)}}
        return await self._api.apply(kind, with_uid, field_manager=labels.OPERATOR)

    async def _check_claim(self, wanted: Manifest) -> None:
        """Check that the volume claim which a StatefulSet would mount belongs to the cluster and
        the broker. Raises `Taken`. A claim that does not exist is no problem."""
        kind, key = kinds.VOLUME_CLAIMS, key_of(wanted)
        name = f"{DATA_VOLUME}-{key.name}-0"
        claim = self._caches[kind].get(key.namespace, name)
        claim = claim or await get_or_none(self._api, kind, key.namespace, name)
        if claim is None:
            return
        for label in (labels.CLUSTER, labels.BROKER_ID):
            if labels_of(claim).get(label) != labels_of(wanted)[label]:
                raise Taken.by(claim, kind, f"its label {label} is not {labels_of(wanted)[label]}")

    async def _recreate(self, live: Manifest) -> None:
        """Delete the StatefulSet without its pod. The pod keeps running, and the StatefulSet that
        the next pass creates adopts it."""
        if "deletionTimestamp" not in metadata(live):
            logger.info("stateful_set_made_anew", extra={"object": key_of(live).name})
            await self._api.delete(
                kinds.STATEFUL_SETS, *key_of(live), uid=uid_of(live), orphan=True
            )

    async def _grow_claims(self, key: ClusterKey, cluster: BrokerCluster) -> list[str | None]:
        """Enlarge the bound volume claims to the size in the spec. Returns for each of them None,
        an empty text or a problem, as `_try_one`."""
        size = cluster.spec.storage.size
        results = []
        for claim in self._caches.members(kinds.VOLUME_CLAIMS, key):
            spec = claim.get("spec") or {}
            requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
            is_bound = (claim.get("status") or {}).get("phase") == "Bound"
            if is_bound and quantity_value(requested) < quantity_value(size):
                results.append(await self._grow(claim, size))
        return results

    async def _grow(self, claim: Manifest, size: str) -> str | None:
        """Enlarge one volume claim. Returns None, an empty text or a problem, as `_try_one`."""
        patch = {
            "metadata": {"uid": uid_of(claim)},
            "spec": {"resources": {"requests": {"storage": size}}},
        }
        failure = await patch_claim(self._api, self._caches, claim, patch, "claim_grown", size=size)
        if isinstance(failure, ApiError):
            return f"PersistentVolumeClaim {key_of(claim).name} cannot grow to {size}: {failure}"
        return failure

    def _unwanted(
        self, key: ClusterKey, cluster: BrokerCluster, keep: Set[tuple[str, str]]
    ) -> list[tuple[Kind, Manifest]]:
        """Objects that the operator created for this BrokerCluster and does not need any more.
        `keep` has kinds and names."""
        return [
            (kind, live)
            for kind in build.KINDS
            if kind in self._caches
            for live in self._caches.members(kind, key)
            if (kind.kind, key_of(live).name) not in keep and _is_ours(live, cluster)
        ]

    async def _delete(self, kind: Kind, live: Manifest) -> str | None:
        """Delete an object. Returns None, an empty text or a problem, as `_try_one`."""
        if not self._authority.is_held():
            raise NotActive
        if "deletionTimestamp" in metadata(live):
            return None
        logger.info("removed", extra={"kind": kind.kind, "object": key_of(live).name})
        try:
            await self._api.delete(kind, *key_of(live), uid=uid_of(live))
        except (Conflict, NotFound, Unavailable):
            return ""
        except ApiError as error:
            return f"{kind.kind} {key_of(live).name} cannot be deleted: {error}"
        return None


def _remedy(error: ApiError) -> str:
    """The end of the message if a node port is allocated to another Service, or a Service cannot
    get another class; else empty."""
    if CLASS_STAYS in str(error):
        return (
            ". Give the listener another name, or delete the Service, which is then created again "
            "with another address"
        )
    if PORT_IS_TAKEN not in str(error):
        return ""
    return (
        ". External clients are configured with this node port: free it, or choose other ports "
        "with spec.listeners[].nodePortBase"
    )


def _desired_fields(live: Manifest) -> Manifest:
    """The fields of an object that the operator sets: its labels and its desired state."""
    found = {name: live.get(name) for name in DESIRED_FIELDS}
    return {**found, "labels": metadata(live).get("labels")}


def _key(cluster: BrokerCluster) -> ClusterKey:
    return ClusterKey(cluster.metadata.namespace, cluster.metadata.name)


def _is_ours(live: Manifest, cluster: BrokerCluster) -> bool:
    """Whether the operator created the object for this BrokerCluster."""
    owners = metadata(live).get("ownerReferences") or []
    is_owned = any(owner.get("uid") == cluster.metadata.uid for owner in owners)
    return (
        is_owned and (metadata(live).get("labels") or {}).get(labels.MANAGED_BY) == labels.OPERATOR
    )


def _may_delete(
    live: Manifest, wanted_brokers: Sequence[BrokerId], brokers: Mapping[BrokerId, Broker]
) -> bool:
    """Whether an object that is not needed any more may be deleted.

    An object of the cluster or of a wanted broker may, like the Service of a removed listener. All
    others belong to a broker that is to go, and are deleted only when its Broker object exists and
    is retired. So a Broker object that is missing stops no broker.
    """
    broker_id = views.broker_id_of(live)
    if broker_id is None or broker_id in wanted_brokers:
        return True
    return broker_id in brokers and brokers[broker_id].spec.retired
