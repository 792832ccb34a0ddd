"""Which Users a cluster admits, and what its brokers read of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chiplog_core.config.broker_keys import ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND
from chiplog_core.config.effective import broker_value
from chiplog_core.config.given import given_broker_config
from chiplog_core.limits import MAX_ACCESS_LIST_BYTES, MAX_CREDENTIALS_BYTES, MAX_USERS
from chiplog_core.model.access_list import AccessListSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.principals import super_user
from chiplog_core.model.user import UserAuthenticationType
from chiplog_core.problems import Problem, Reason
from chiplog_core.users.compiled import Compiled
from chiplog_core.validate.user import check_user_in_cluster

VERIFIER_BYTES = 360
"""At most this many bytes of a password's verifier, as JSON, without the user's name."""

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which Users a cluster admits."""

    admitted: tuple[Compiled, ...] = ()
    """In the order of their names."""
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of each other User -> why it is not admitted."""


def admit(cluster: BrokerCluster, users: Iterable[Compiled]) -> Admission:
    """Decide which Users the cluster admits. Deleted Users are neither admitted nor a problem.

    Where all of them do not fit into the objects that brokers read, or several have the same
    principal, the oldest are admitted, so that no new User takes the permissions of another one
    away.
    """
    admitted: list[Compiled] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    principals: dict[str, str] = {}
    list_bytes = credentials_bytes = 0
    for one in sorted(users, key=_age):
        user = one.user
        if user.metadata.deletion_timestamp is not None:
            continue
        found = one.problems or check_user_in_cluster(user, cluster)
        principal = one.listed.principal
        if not found and principal in principals:
            found = (_same_principal(principal, principals[principal]),)
        verifier_bytes = _verifier_bytes(one)
        if not found and (
            list_bytes + one.size_bytes > MAX_ACCESS_LIST_BYTES
            or credentials_bytes + verifier_bytes > MAX_CREDENTIALS_BYTES
            or len(admitted) >= MAX_USERS
        ):
            found = (_too_many(cluster, len(admitted)),)
        if found:
            problems[user.metadata.uid] = found
            continue
        principals[principal] = one.listed.name
        list_bytes += one.size_bytes
        credentials_bytes += verifier_bytes
        admitted.append(one)
    in_order = sorted(admitted, key=lambda one: one.listed.name)
    return Admission(admitted=tuple(in_order), problems=problems)


def access_spec(
    cluster: BrokerCluster, admitted: Collection[Compiled], credentials_digest: str | None
) -> AccessListSpec:
    """What the AccessList of the cluster should have."""
    authorization = cluster.spec.authorization
    supers = () if authorization is None else authorization.super_users
    values = given_broker_config(cluster.spec.config).values
    allows_everyone = broker_value(values, ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND)
    return AccessListSpec(
        users=tuple(one.listed for one in admitted),
        super_users=tuple(dict.fromkeys(map(super_user, supers))),
        allow_everyone_if_no_acl_found=allows_everyone is True,
        credentials_digest=credentials_digest,
    )


def _same_principal(principal: str, name: str) -> Problem:
    return Problem(
        "spec.username",
        f"is the principal {principal}, which the older User {name} has already",
        f"change User {name}, and delete this one",
        Reason.RESOURCE_CONFLICT,
    )


def _age(one: Compiled) -> tuple[datetime, str]:
    metadata = one.user.metadata
    return metadata.creation_timestamp or _EVER, metadata.name


def _verifier_bytes(one: Compiled) -> int:
    """The most bytes that the user's verifier needs in the Secret."""
    if one.user.spec.authentication_type is not UserAuthenticationType.SCRAM_SHA_512:
        return 0
    return len(one.listed.name) + VERIFIER_BYTES


def _too_many(cluster: BrokerCluster, count: int) -> Problem:
    return Problem(
        "spec",
        f"does not fit: the {count} older Users of cluster {cluster.metadata.name} fill the object "
        "that brokers read",
        "use fewer rules, like a prefix for several names, or delete Users",
        Reason.RESOURCE_CONFLICT,
    )
