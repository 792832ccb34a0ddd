"""Credentials that clients of Kafka's protocol set: from a broker's request to a user's Secret.

A broker hands over what verifies a password, encrypted with the secret that it shares with the
operator. It is checked here as if anybody had written it, and never logged.
"""

from collections.abc import Mapping
from typing import Protocol

from chiplog_core.admin.request_keys import credential_place
from chiplog_core.model.actions import WriteUser
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.user import User
from chiplog_core.naming import labels, taken_names
from chiplog_kube import kinds
from chiplog_kube.api import KubeApi, Manifest, NotFound, Unavailable, get_or_none
from chiplog_kube.manifests import metadata, uid_of, version_of
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.secrets import bytes_of
from chiplog_operator.client_writes import NotStored
from chiplog_operator.groups.port import NoAnswer
from chiplog_operator.users.secret import ENTRIES, is_of, secret_of_user, why_taken
from chiplog_operator.users.verifiers import Verifier
from chiplog_operator.writes import Authority, NotActive
from chiplog_wire.sealing import NotOpened, unseal


class InternalSecrets(Protocol):
    """The secrets that the operator shares with brokers."""

    async def of(self, cluster: ClusterKey) -> str:
        """The secret of a cluster. Raises `NoAnswer` if it cannot be read."""

    def forget(self, cluster: ClusterKey) -> None:
        """Read it again: it was refused."""


class StoredByClients:
    """Opens the credentials in requests of brokers, and stores them in Secrets of users."""

    def __init__(self, api: KubeApi, authority: Authority, secrets: InternalSecrets) -> None:
        self._api = api
        self._authority = authority
        self._secrets = secrets

    async def opened(self, cluster: ClusterKey, action: WriteUser) -> str:
        """The verifier in the request, checked; empty without one. Raises `NotStored` and
        `Unavailable`."""
        credential = action.credential
        if credential is None:
            return ""
        if not credential.before_user:
            await self._check_free(cluster, action.metadata)
        place = credential_place(
            cluster.namespace, cluster.name, action.request_id, credential.username
        )
        try:
            text = unseal([await self._secrets.of(cluster)], place, credential.sealed)
            return Verifier.read(text).text()
        except NoAnswer as error:
            raise Unavailable(str(error)) from None
        except NotOpened:
            # The secret may have changed.
            self._secrets.forget(cluster)
            raise NotStored("the operator cannot decrypt the credential: try again") from None
        except ValueError:
            raise NotStored("the credential cannot be read") from None

    async def _check_free(self, cluster: ClusterKey, metadata_: Metadata) -> None:
        """Raise `NotStored` if a Secret that is not the User's has the name of a User that has
        none: before the User is written, which would be left behind."""
        namespace, name = metadata_.namespace, metadata_.name
        found = await get_or_none(self._api, kinds.SECRETS, namespace, name)
        kind = kinds.USERS
        owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}
        wanted = {
            "labels": {labels.CLUSTER: cluster.name},
            "ownerReferences": [{**owner, "uid": metadata_.uid}],
        }
        if found is not None and (
            why := taken_names.why_not_ours(metadata(found), wanted, label=labels.CLUSTER)
        ):
            raise NotStored(_taken(name, why))

    async def store(
        self, cluster: ClusterKey, user: Manifest | None, entry: str, verifier: str
    ) -> None:
        """Put a verifier into the Secret of this User. Raises `NotStored`, `NotActive` and
        `ApiError`s."""
        if user is None:
            raise NotFound("the User is gone")
        read = User.from_manifest(user)
        found = await get_or_none(
            self._api, kinds.SECRETS, read.metadata.namespace, read.metadata.name
        )
        if found is not None and (why := why_taken(read, found, cluster.name)):
            raise NotStored(_taken(read.metadata.name, why))
        if not self._authority.is_held():
            raise NotActive
        entries = dict(_kept(found, read) if found is not None and is_of(read, found) else {})
        wanted = secret_of_user(read, cluster.name, {**entries, entry: verifier.encode()})
        if found is None:
            await self._api.apply_new(kinds.SECRETS, wanted, field_manager=labels.OPERATOR)
            return
        exactly = {"uid": uid_of(found), "resourceVersion": version_of(found)}
        manifest = {**wanted, "metadata": {**metadata(wanted), **exactly}}
        await self._api.apply(kinds.SECRETS, manifest, field_manager=labels.OPERATOR)


def _taken(name: str, why: str) -> str:
    return f"Secret {name} is not this User's ({why}): delete it, or give the user another name"


def _kept(found: Manifest, user: User) -> Mapping[str, bytes]:
    """The entries that stay: those of the operator, and the verifier that the User names."""
    authentication = user.spec.authentication
    current = None if authentication is None else authentication.verifier_key
    names = [name for name in found.get("data") or {} if name in ENTRIES or name == current]
    return {name: bytes_of(found, name) for name in names}
