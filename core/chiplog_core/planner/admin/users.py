"""Decides one request of an admin client about a user: a write to a User, an answer, or waiting.

The Users are the only place for ACLs, credentials and quotas. A request names what there should be,
or should not: so it can be decided again from the Users alone, however often
and by whichever operator, until they say so. Only whether a credential is stored cannot be seen in
a User: that is known from the answer to the write, and the write is repeated without one.

What a broker asks for is checked as a manifest is that a user applies. Whether its client may ask
for it was decided by the broker's authorizer.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from chiplog_core.admin.answers import Verdict
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import AlterAcls, AlterQuotas, AlterScram, OfUser
from chiplog_core.admin.ownership import SPEC, Path, foreign_managers
from chiplog_core.client_quotas.entities import Quota
from chiplog_core.client_quotas.listed import changed, values, why_not_in_user
from chiplog_core.limits import MAX_USERS
from chiplog_core.manifest.shapes import manifest_name
from chiplog_core.manifest.writing import write
from chiplog_core.model.access_list import AclEntry, Quotas
from chiplog_core.model.acl_rules import with_entries, without_entries
from chiplog_core.model.actions import SealedCredential, WriteUser
from chiplog_core.model.authorization import AuthorizationType
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.principals import MAX_COMMON_NAME_LENGTH, USER_TYPE, principal_of
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.user import (
    VERIFIER_ENTRY,
    AclRule,
    User,
    UserAuthentication,
    UserAuthenticationType,
    UserAuthorization,
    UserSpec,
)
from chiplog_core.naming import labels, names
from chiplog_core.naming.names import object_name
from chiplog_core.observed.settings import paused
from chiplog_core.observed.world import World
from chiplog_core.planner.admin.waiting import Waiting
from chiplog_core.problems import InvalidManifest, Problem
from chiplog_core.validate.user import check_user, check_user_in_cluster, needs_access_list

Decision: TypeAlias = WriteUser | Verdict | Waiting

SCRAM: Final = UserAuthenticationType.SCRAM_SHA_512
SUBJECT: Final = "CN="
AUTHENTICATION: Final[Path] = (*SPEC, "authentication")
ACLS: Final[Path] = (*SPEC, "authorization", "acls")
QUOTAS: Final[Path] = (*SPEC, "quotas")


class UserDecider:
    """Decides the requests about users of one cluster, within one plan."""

    def __init__(self, world: World, cluster: BrokerCluster) -> None:
        self._world = world
        self._cluster = cluster

    def decide(self, operation: OfUser, key: str) -> Decision:
        """The decision on the request that `key` identifies. Raises `Refused`."""
        _refuse_while_paused(self._world.metadata, "BrokerCluster")
        result = self._world.write_results.get(key)
        if result is not None and not result.accepted:
            return Verdict(code=Code.POLICY_VIOLATION, message=result.message)
        if isinstance(operation, AlterScram):
            # Another client may have replaced the credential since.
            is_stored = result is not None and operation.sealed is not None
            return Verdict() if is_stored else self._scram(operation, key)
        if isinstance(operation, AlterQuotas):
            decision = self._quotas(operation, key)
            return Verdict() if operation.validate_only else decision
        if self._cluster.spec.authorization is None:
            raise Refused(
                Code.SECURITY_DISABLED,
                f"BrokerCluster {self._cluster.metadata.name} has no spec.authorization: set it",
            )
        if operation.is_deletion:
            return self._delete_acls(operation, key)
        return self._create_acls(operation, key)

    # -- ACLs

    def _create_acls(self, operation: AlterAcls, key: str) -> Decision:
        """Add ACLs to the User of the principal; without one, make it."""
        found = self._users_of(operation.name)
        if not found:
            return self._create(operation.name, key, acls=operation.acls)
        user = found[0]
        rules = _rules(user)
        after = with_entries(rules, operation.acls)
        if after == rules:
            return Verdict()
        return self._change_rules(user, after, key)

    def _delete_acls(self, operation: AlterAcls, key: str) -> Decision:
        """Remove ACLs from the next User of the principal that has any of them."""
        for user in self._users_of(operation.name):
            rules = _rules(user)
            after = without_entries(rules, operation.acls)
            if after != rules:
                return self._change_rules(user, after, key)
        return Verdict()

    def _change_rules(self, user: User, rules: tuple[AclRule, ...], key: str) -> WriteUser:
        """The write that gives a User these rules. One that clients made, and of which nothing is
        left, is deleted."""
        self._check_ours(user, ACLS)
        spec = user.spec
        before = spec.authorization or UserAuthorization(type=AuthorizationType.SIMPLE)
        after = replace(spec, authorization=replace(before, acls=rules))
        if self._may_go(replace(user, spec=after)):
            return _deletion(user, key)
        manifest = self._checked(replace(user, spec=after))
        # An empty list is left out of manifests, so a patch has to remove it.
        return _patch(
            user, key, {"authorization": {"acls": None, **manifest["spec"]["authorization"]}}
        )

    # -- credentials

    def _scram(self, operation: AlterScram, key: str) -> Decision:
        """Store a credential, or delete it."""
        found = [
            user
            for user in self._users_of(operation.name)
            if operation.sealed is not None or user.spec.authentication_type is SCRAM
        ]
        if operation.sealed is None:
            return self._forget(found[0], key) if found else Verdict()
        credential = SealedCredential(
            username=operation.username,
            sealed=operation.sealed,
            entry=entry_of(key),
            before_user=bool(found) and found[0].spec.authentication_type is SCRAM,
        )
        wanted = UserAuthentication(type=SCRAM, verifier_key=credential.entry)
        if not found:
            created = self._create(operation.name, key, authentication=wanted)
            return replace(created, credential=credential)
        user = found[0]
        before = user.spec.authentication
        if before is not None and before.type is not SCRAM:
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{_text(user)} has spec.authentication.type {before.type}: give the user with the "
                "password another name",
            )
        if before is None:
            self._check_ours(user, (*AUTHENTICATION, "type"))
        elif before.password is not None:
            self._check_ours(user, (*AUTHENTICATION, "password"))
        self._check_ours(user, (*AUTHENTICATION, "verifierKey"))
        self._checked(replace(user, spec=replace(user.spec, authentication=wanted)))
        patch = {"type": SCRAM.value, "password": None, "verifierKey": credential.entry}
        return replace(_patch(user, key, {"authentication": patch}), credential=credential)

    def _forget(self, user: User, key: str) -> WriteUser:
        """The write that takes a user's password away."""
        self._check_ours(user, AUTHENTICATION)
        if self._may_go(replace(user, spec=replace(user.spec, authentication=None))):
            return _deletion(user, key)
        return _patch(user, key, {"authentication": None})

    # -- quotas

    def _quotas(self, operation: AlterQuotas, key: str) -> Decision:
        """Set and remove quotas of the User that counts. Other Users of the principal lose what is
        to be removed, or it would be in force once they count."""
        if not needs_access_list(self._cluster):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"brokers of cluster {self._cluster.metadata.name} do not read its Users: set "
                "spec.authorization.type of the BrokerCluster to simple",
            )
        wanted = {quota: value for quota, value in operation.values.items() if value is not None}
        for quota, value in wanted.items():
            if why := why_not_in_user(quota, value):
                raise Refused(Code.POLICY_VIOLATION, why)
        found = self._users_of(operation.name)
        if not found and wanted:
            return self._create(operation.name, key, quotas=changed(Quotas(), wanted))
        for number, user in enumerate(found):
            changes = {
                quota: value
                for quota, value in operation.values.items()
                if number == 0 or value is None
            }
            before = user.spec.quotas or Quotas()
            after = changed(before, changes)
            if after != before:
                return self._change_quotas(user, before, after, key)
        return Verdict()

    def _change_quotas(self, user: User, before: Quotas, after: Quotas, key: str) -> WriteUser:
        """The write that gives a User these quotas."""
        known, wanted = values(before), values(after)
        differ = [quota for quota in Quota if known.get(quota) != wanted.get(quota)]
        for quota in differ:
            self._check_ours(user, (*QUOTAS, manifest_name(quota)))
        left = replace(user, spec=replace(user.spec, quotas=None if after == Quotas() else after))
        if self._may_go(left):
            return _deletion(user, key)
        self._checked(left)
        if not wanted and not self._others(user, QUOTAS):
            return _patch(user, key, {"quotas": None})
        manifest = write(after)
        fields = [manifest_name(quota) for quota in differ]
        return _patch(user, key, {"quotas": {field: manifest.get(field) for field in fields}})

    # -- the User

    def _users_of(self, principal: str) -> list[User]:
        """The Users with this principal, the one that the cluster admits first. Raises `Refused`
        while one is being deleted."""
        namespace = self._cluster.metadata.namespace
        found = [
            user
            for user in self._world.users
            if user.metadata.namespace == namespace and principal_of(user) == principal
        ]
        for user in found:
            if user.metadata.deletion_timestamp is not None:
                raise Refused(
                    Code.POLICY_VIOLATION, f"{_text(user)} is being deleted: try again later"
                )
        return sorted(found, key=_age)

    def _create(
        self,
        principal: str,
        key: str,
        *,
        acls: tuple[AclEntry, ...] = (),
        authentication: UserAuthentication | None = None,
        quotas: Quotas | None = None,
    ) -> WriteUser:
        """The write that makes a User with this principal. Raises `Refused`."""
        if not principal.startswith(USER_TYPE):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"the principal {principal} is no user: write User: and its name",
            )
        if len(self._world.users) >= MAX_USERS:
            raise Refused(
                Code.POLICY_VIOLATION,
                f"the cluster has {len(self._world.users)} Users, and {MAX_USERS} is the limit: "
                "delete Users",
            )
        name, username, type_ = self._name(principal)
        if authentication is None and type_ is not None:
            authentication = UserAuthentication(type=type_)
        rules = with_entries((), acls)
        spec = UserSpec(
            cluster_ref=ClusterRef(name=self._cluster.metadata.name),
            authentication=authentication,
            authorization=UserAuthorization(type=AuthorizationType.SIMPLE, acls=rules)
            if rules
            else None,
            username=username,
            quotas=quotas,
        )
        metadata = Metadata(
            name=name,
            namespace=self._cluster.metadata.namespace,
            labels={
                labels.CLUSTER: self._cluster.metadata.name,
                labels.CREATED_BY: labels.KAFKA_CLIENT,
            },
        )
        manifest = self._checked(User(metadata=metadata, spec=spec))
        return WriteUser(
            request_id=key,
            metadata=Metadata(name=metadata.name, namespace=metadata.namespace),
            create=manifest,
        )

    def _name(self, principal: str) -> tuple[str, str | None, UserAuthenticationType | None]:
        """The name of a new User with this principal, the name that its spec needs, and the type of
        authentication that the principal implies."""
        username = principal.removeprefix(USER_TYPE)
        if self._is_free(username):
            return username, None, None
        subject = username.removeprefix(SUBJECT)
        fits = username.startswith(SUBJECT) and len(subject) <= MAX_COMMON_NAME_LENGTH
        if fits and self._is_free(subject):
            return subject, None, UserAuthenticationType.TLS_EXTERNAL
        # `:` is in no name of an object, so this one ends in a hash.
        name = object_name(principal)
        if not self._is_free(name):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"principal {principal} needs a User object named {name}, but that object is "
                "another user, or cannot be parsed: apply a User with another metadata.name and "
                "this spec.username",
            )
        is_subject = "=" in username
        return name, username, UserAuthenticationType.TLS_EXTERNAL if is_subject else None

    def _is_free(self, name: str) -> bool:
        """Whether a new User can have this name."""
        namespace = self._cluster.metadata.namespace
        return (
            object_name(name) == name
            and name not in names.secrets_of(self._cluster.metadata.name)
            and name not in self._world.unreadable_users
            and all(
                (user.metadata.namespace, user.metadata.name) != (namespace, name)
                for user in self._world.users
            )
        )

    def _may_go(self, user: User) -> bool:
        """Whether a client made the User, it says nothing any more, and nobody else has written its
        spec."""
        return _is_empty(user) and not self._others(user, SPEC)

    def _others(self, user: User, path: Path) -> tuple[str, ...]:
        """The other field managers of a field, or of something inside it."""
        managed_fields = self._world.managed_fields.get(user.metadata.uid)
        return foreign_managers(managed_fields, path, user.metadata.annotations)

    def _check_ours(self, user: User, path: Path) -> None:
        """Refuse a change of a paused User, or of a field that another field manager owns."""
        _refuse_while_paused(user.metadata, "User")
        if managers := self._others(user, path):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{'.'.join(path)} of {_text(user)} is managed by {', '.join(managers)}: change it "
                f"there, or run kubectl edit users.chiplog.dev {user.metadata.name} "
                f"-n {user.metadata.namespace}",
            )

    def _checked(self, user: User) -> Mapping[str, Any]:
        """The manifest of a User, after the same checks as for one that is applied. Raises
        `Refused`."""
        try:
            read = User.from_manifest(user.to_manifest())
        except InvalidManifest as invalid:
            raise _refusal(invalid.problems) from invalid
        if problems := (*check_user(read), *check_user_in_cluster(read, self._cluster)):
            raise _refusal(problems)
        manifest = user.to_manifest()
        manifest.pop("status", None)
        return manifest


def entry_of(key: str) -> str:
    """The entry of a user's Secret for the credential in the request with this key: another one for
    each request, so that a User names exactly one credential."""
    return VERIFIER_ENTRY + hashlib.sha256(key.encode()).hexdigest()[:16]


def _rules(user: User) -> tuple[AclRule, ...]:
    return () if user.spec.authorization is None else user.spec.authorization.acls


def _is_empty(user: User) -> bool:
    """Whether a client made the User, and it says nothing any more. What a client has not made
    stays."""
    spec = user.spec
    is_of_client = user.metadata.labels.get(labels.CREATED_BY) == labels.KAFKA_CLIENT
    has_login = spec.authentication_type not in (None, UserAuthenticationType.TLS_EXTERNAL)
    return (
        is_of_client
        and not has_login
        and not _rules(user)
        and spec.quotas in (None, Quotas())
        and spec.template is None
    )


def _age(user: User) -> tuple[str, str]:
    created = user.metadata.creation_timestamp
    return "" if created is None else created.isoformat(), user.metadata.name


def _identity(user: User) -> Metadata:
    """The metadata by which a write names exactly this version of the User."""
    meta = user.metadata
    return Metadata(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _patch(user: User, key: str, spec: Mapping[str, object]) -> WriteUser:
    return WriteUser(request_id=key, metadata=_identity(user), patch={"spec": spec})


def _deletion(user: User, key: str) -> WriteUser:
    return WriteUser(request_id=key, metadata=_identity(user), delete=True)


def _text(user: User) -> str:
    return f"User {user.metadata.namespace}/{user.metadata.name}"


def _refusal(problems: Iterable[Problem]) -> Refused:
    return Refused(Code.POLICY_VIOLATION, "; ".join(map(str, problems)))


def _refuse_while_paused(metadata: Metadata, kind: str) -> None:
    """Raise `Refused` for an object whose annotation pauses it."""
    if paused(metadata):
        raise Refused(
            Code.POLICY_VIOLATION,
            f"{kind} {metadata.namespace}/{metadata.name} has the annotation {labels.PAUSE}: "
            "remove it first",
        )
