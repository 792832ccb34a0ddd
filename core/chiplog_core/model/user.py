"""User: somebody who uses a cluster as a Kafka client, as its owner wants it, and its actual state.

The fields are those of Strimzi's KafkaUser, so that its manifests need only another kind and
`clusterRef`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from chiplog_core.authorizer.acls import WILDCARD
from chiplog_core.ids import MAX_INT64
from chiplog_core.limits import (
    MAX_ACL_NAME_LENGTH,
    MAX_ACL_OPERATIONS,
    MAX_CONDITIONS,
    MAX_NAME_LENGTH,
    MAX_SECRET_ANNOTATIONS,
    MAX_USER_ACLS,
    MAX_USERNAME_LENGTH,
)
from chiplog_core.manifest.constraints import Entries, Items, Length, Range
from chiplog_core.model.access_list import (
    AclOperation,
    AclPermission,
    AclResourceType,
    Quotas,
)
from chiplog_core.model.authorization import AuthorizationType
from chiplog_core.model.certificates import SecretKey
from chiplog_core.model.conditions import Condition
from chiplog_core.model.references import ClusterRef, ObjectName
from chiplog_core.model.resource import UsersResource
from chiplog_core.naming import api

VERIFIER_ENTRY: Final = "scram-sha-512."
"""How the entries of a user's Secret with a verifier begin."""


class UserAuthenticationType(StrEnum):
    """How a user authenticates."""

    TLS = "tls"
    TLS_EXTERNAL = "tls-external"
    SCRAM_SHA_512 = "scram-sha-512"


class AclRulePatternType(StrEnum):
    """How the name of a resource is compared with names, in the words of users."""

    LITERAL = "literal"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKeyRef:
    """An entry of a Secret in the namespace of this object."""

    name: Annotated[ObjectName, "Name of the Secret."]
    key: Annotated[SecretKey, "Key of the entry."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSource:
    """Where the password comes from."""

    secret_key_ref: Annotated[SecretKeyRef, "An entry of a Secret in the namespace of this object."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    """The password of a user."""

    value_from: Annotated[PasswordSource, "Where the password comes from."]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAuthentication:
    """How the user authenticates."""

    type: Annotated[
        UserAuthenticationType,
        "tls: with a certificate that the clients CA issues; it is put into a Secret with the "
        "name of this object. tls-external: with a certificate that you issue, with the subject "
        "CN=<name of this object>. scram-sha-512: with a password, which is put into a Secret "
        "with the name of this object.",
    ]
    password: Annotated[
        Password | None,
        "Only with scram-sha-512: the password. Default: a random one, which is kept.",
    ] = None
    verifier_key: Annotated[
        SecretKey | None,
        "Only with scram-sha-512, and set when a client of Kafka's protocol sets the password: the "
        "entry of the user's Secret with what brokers need to check it. Nobody else knows the "
        "password then. Remove it, and the operator chooses the password again.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AclResource:
    """The resources that a rule is about."""

    type: Annotated[AclResourceType, "Type of the resources."]
    name: Annotated[
        str | None,
        "Name of the resource; * for all of this type. With patternType prefix: how names begin. "
        "Not for type cluster.",
        Length(MAX_ACL_NAME_LENGTH, minimum=1),
    ] = None
    pattern_type: Annotated[
        AclRulePatternType,
        "literal, the default: the resource with exactly this name. prefix: all whose names begin "
        "with it.",
    ] = AclRulePatternType.LITERAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    """What the user may do, or may not."""

    type: Annotated[
        AclPermission,
        "Whether the rule allows, which is the default, or denies. What a rule denies, no rule "
        "allows.",
    ] = AclPermission.ALLOW
    resource: Annotated[AclResource, "The resources that the rule is about."]
    host: Annotated[
        str,
        "The IP address from which the user connects. Default: *, for all.",
        Length(MAX_ACL_NAME_LENGTH, minimum=1),
    ] = WILDCARD
    operations: Annotated[
        tuple[AclOperation, ...],
        "The operations that are allowed or denied.",
        Items(MAX_ACL_OPERATIONS, unique=True),
    ] = ()
    operation: Annotated[
        AclOperation | None, "A single operation, the older form of operations."
    ] = None

    @property
    def every_operation(self) -> tuple[AclOperation, ...]:
        """The operations of both fields."""
        one = () if self.operation is None else (self.operation,)
        return tuple(dict.fromkeys((*self.operations, *one)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAuthorization:
    """What the user may do."""

    type: Annotated[AuthorizationType, "simple: by the rules in acls."]
    acls: Annotated[
        tuple[AclRule, ...],
        "The rules. What no rule allows is denied.",
        Items(MAX_USER_ACLS),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMetadata:
    """Labels and annotations of a Secret."""

    labels: Annotated[
        Mapping[str, Annotated[str, Length(63)]], "Labels to add.", Entries(MAX_SECRET_ANNOTATIONS)
    ] = field(default_factory=dict)
    annotations: Annotated[
        Mapping[str, Annotated[str, Length(1_024)]],
        "Annotations to add.",
        Entries(MAX_SECRET_ANNOTATIONS),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretTemplate:
    """How the user's Secret is made."""

    metadata: Annotated[SecretMetadata | None, "Labels and annotations of the Secret."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTemplate:
    """How objects for the user are made."""

    secret: Annotated[SecretTemplate | None, "How the user's Secret is made."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    """Desired state of the user."""

    cluster_ref: Annotated[
        ClusterRef,
        "The BrokerCluster whose user this is, in the namespace of this object. It cannot be "
        "changed later.",
    ]
    authentication: Annotated[
        UserAuthentication | None,
        "How the user authenticates. Default: the operator makes no credentials, and the rules "
        "are for the principal User:<name of this object>, or User:<username>.",
    ] = None
    username: Annotated[
        str | None,
        "The name by which brokers know the user, without User:, if that is not the name of this "
        "object: like Alice_1, the whole subject of a certificate of type tls-external, the "
        "name in a token like system:serviceaccount:<namespace>:<name>, or * for everybody. Not "
        "with type tls.",
        Length(MAX_USERNAME_LENGTH, minimum=1),
    ] = None
    authorization: Annotated[
        UserAuthorization | None,
        "What the user may do. It needs spec.authorization of the BrokerCluster.",
    ] = None
    quotas: Annotated[Quotas | None, "How much of the brokers the user may use."] = None
    template: Annotated[UserTemplate | None, "How objects for the user are made."] = None

    @property
    def authentication_type(self) -> UserAuthenticationType | None:
        return None if self.authentication is None else self.authentication.type


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStatus:
    """Actual state of the user, as of the last reconciliation."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready: the user has credentials, and the brokers have its rules. Warning: something that "
        "you should know.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    username: Annotated[
        str | None,
        "The name by which brokers know the user, without User:, like CN=alice or alice.",
        Length(MAX_USERNAME_LENGTH),
    ] = None
    secret: Annotated[
        str | None, "Name of the Secret with the user's credentials.", Length(MAX_NAME_LENGTH)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User(UsersResource):
    """A user of a BrokerCluster: how it authenticates, and what it may do."""

    KIND = api.USER

    spec: UserSpec
    status: UserStatus = field(default_factory=UserStatus)
