"""The two objects that brokers read: the AccessList, and the Secret with verifiers of passwords."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_core.manifest.writing import write
from chiplog_core.model.access_list import AccessListSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels, names
from chiplog_kube import kinds
from chiplog_kube.api import KubeApi, Manifest, get_or_none
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import key_of, labels_of, metadata, uid_of, version_of
from chiplog_operator.certificates.secrets import secret_of
from chiplog_operator.clock import Clock
from chiplog_operator.resources.objects import cluster_object
from chiplog_operator.taken import check_ours
from chiplog_operator.users.secret import text_in
from chiplog_operator.writes import Authority, NotActive

logger = logging.getLogger(__name__)

OWNERS = "ownerReferences"
READ_AGAIN_S = 60.0
"""This often the objects are read, in case somebody changed them."""


@dataclass(slots=True)
class _Read:
    """An object as it was read or written."""

    at_s: float = float("-inf")
    live: Manifest | None = field(default=None, repr=False)


class BrokersObjects:
    """Keeps the two objects of one cluster."""

    def __init__(self, api: KubeApi, authority: Authority, clock: Clock) -> None:
        self._api = api
        self._authority = authority
        self._clock = clock
        self._read: dict[tuple[str, Kind], _Read] = {}

    def forget(self) -> None:
        """Read everything again before the next decision."""
        self._read.clear()

    async def stored_verifiers(self, cluster: BrokerCluster) -> dict[str, str]:
        """The verifiers that brokers have, by the name of the user; empty for an entry that is no
        text. Raises `Taken` and `ApiError`s."""
        name = names.scram_credentials(cluster.metadata.name)
        live = await self._current(cluster, kinds.SECRETS, name)
        return {user: text_in(live, user) for user in (live or {}).get("data") or {}}

    async def write_verifiers(self, cluster: BrokerCluster, verifiers: Mapping[str, str]) -> None:
        """Write the verifiers, if they differ from what brokers have. Raises `Taken`, `NotActive`
        and `ApiError`s."""
        name = names.scram_credentials(cluster.metadata.name)
        live = await self._current(cluster, kinds.SECRETS, name)
        wanted = secret_of(cluster, name, dict(sorted(verifiers.items())))
        if _differs(live, wanted, "data"):
            logger.info("verifiers_written", extra=_facts(cluster, len(verifiers)))
            await self._write(cluster, kinds.SECRETS, live, wanted, "data")

    async def write_access_list(self, cluster: BrokerCluster, spec: AccessListSpec) -> None:
        """Write the AccessList, if it differs. Raises `Taken`, `NotActive` and `ApiError`s."""
        name = cluster.metadata.name
        live = await self._current(cluster, kinds.ACCESS_LISTS, name)
        wanted = cluster_object(kinds.ACCESS_LISTS, name, cluster, {"spec": write(spec)})
        if _differs(live, wanted, "spec"):
            logger.info("access_list_written", extra=_facts(cluster, len(spec.users)))
            await self._write(cluster, kinds.ACCESS_LISTS, live, wanted, "spec")

    async def listed_digest(self, cluster: BrokerCluster) -> str | None:
        """The digest of verifiers that brokers know now. Raises `Taken` and `ApiError`s."""
        live = await self._current(cluster, kinds.ACCESS_LISTS, cluster.metadata.name)
        digest: str | None = ((live or {}).get("spec") or {}).get("credentialsDigest")
        return digest

    async def has_access_list(self, cluster: BrokerCluster) -> bool:
        """Whether there is an AccessList. Raises `Taken` and `ApiError`s."""
        name = cluster.metadata.name
        return await self._current(cluster, kinds.ACCESS_LISTS, name) is not None

    async def _current(self, cluster: BrokerCluster, kind: Kind, name: str) -> Manifest | None:
        """The object, read again if that is due; None if there is none."""
        now_s = self._clock.monotonic_s()
        known = self._read.setdefault((cluster.metadata.uid, kind), _Read())
        if now_s - known.at_s >= READ_AGAIN_S:
            live = await get_or_none(self._api, kind, cluster.metadata.namespace, name)
            if live is not None:
                check_ours(kind, live, cluster_object(kind, name, cluster, {}))
            known.at_s, known.live = now_s, live
        return known.live

    async def _write(
        self, cluster: BrokerCluster, kind: Kind, live: Manifest | None, wanted: Manifest, part: str
    ) -> None:
        """Create an object, or make its `part` exactly what is wanted: what somebody else added
        could let anybody in, so it is removed. After an error the object is read again."""
        if not self._authority.is_held():
            raise NotActive
        known = self._read.pop((cluster.metadata.uid, kind))
        if live is None:
            known.live = await self._api.create(kind, wanted, field_manager=labels.OPERATOR)
        else:
            version = {
                "uid": uid_of(live),
                "resourceVersion": version_of(live),
                OWNERS: metadata(wanted)[OWNERS],
                "labels": labels_of(wanted),
            }
            content = {**dict.fromkeys(live.get(part) or {}), **wanted[part]}
            patch = {"metadata": version, part: content}
            known.live = await self._api.patch(
                kind, *key_of(wanted), patch, field_manager=labels.OPERATOR
            )
        assert key_of(known.live) == key_of(wanted), "the API server returns what it wrote"
        self._read[cluster.metadata.uid, kind] = known


def _differs(live: Manifest | None, wanted: Manifest, part: str) -> bool:
    """Whether the object does not exist, has another content, lacks the labels of the
    cluster's objects, or had another owner, with which Kubernetes would delete it."""
    if live is None:
        return True
    owners = [[one["uid"] for one in metadata(it).get(OWNERS) or ()] for it in (live, wanted)]
    lacks_labels = bool(labels_of(wanted).items() - labels_of(live).items())
    return lacks_labels or owners[0] != owners[1] or (live.get(part) or {}) != wanted[part]


def digest_of(verifiers: Mapping[str, str]) -> str | None:
    """The SHA-256 of the content of the Secret, in hex; None if there is none."""
    if not verifiers:
        return None
    text = json.dumps(verifiers, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _facts(cluster: BrokerCluster, users: int) -> dict[str, object]:
    return {"cluster": cluster.metadata.name, "users": users}
