"""Rules for users."""

from collections.abc import Iterator

from chiplog_core.authorizer.acls import CLUSTER_NAME, WILDCARD
from chiplog_core.model.access_list import AclResourceType, Quotas
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.principals import (
    ANONYMOUS_NAME,
    MAX_COMMON_NAME_LENGTH,
    has_certificate,
    principal_of,
    super_user,
)
from chiplog_core.model.user import (
    VERIFIER_ENTRY,
    AclResource,
    AclRulePatternType,
    User,
    UserAuthenticationType,
)
from chiplog_core.naming import names
from chiplog_core.problems import Problem, Reason
from chiplog_core.token_claims import ACCOUNT_PREFIX


def check_user(user: User) -> tuple[Problem, ...]:
    """Problems with a User itself."""
    rules = (_name, _username, _password, _acls)
    return tuple(problem for rule in rules for problem in rule(user))


def check_user_in_cluster(user: User, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with a User in the cluster that it names."""
    problems = []
    if user.metadata.namespace != cluster.metadata.namespace:
        problems.append(
            Problem(
                "spec.clusterRef.namespace",
                f"is {cluster.metadata.namespace}, but Users of other namespaces are not supported",
                "create the User in the namespace of its BrokerCluster",
                Reason.NOT_SUPPORTED,
            )
        )
    if user.metadata.name in names.secrets_of(cluster.metadata.name):
        message = f"is {user.metadata.name}, the name of a Secret of the cluster itself"
        problems.append(
            Problem("metadata.name", message, "choose another name", Reason.RESOURCE_CONFLICT)
        )
    issues = user.spec.authentication_type is UserAuthenticationType.TLS
    if issues and not _has_listener(cluster, "tls"):
        problems.append(
            Problem(
                "spec.authentication.type",
                f"is tls, but no listener of cluster {cluster.metadata.name} has it, so there is "
                "no clients CA",
                "add a listener with authentication.type tls to the BrokerCluster",
            )
        )
    return tuple(problems)


def needs_access_list(cluster: BrokerCluster) -> bool:
    """Whether the brokers ask who may do what, or for passwords. In other clusters
    they do not read Users."""
    has_passwords = any(listener.asks_for_passwords for listener in cluster.spec.listeners)
    return has_passwords or cluster.spec.authorization is not None


def check_user_change(before: User, after: User) -> tuple[Problem, ...]:
    """Problems with changing a User from `before` to `after`."""
    if before.spec.cluster_ref == after.spec.cluster_ref:
        return ()
    remedy = "delete this User and create one for the other cluster"
    return (Problem("spec.clusterRef", "cannot be changed", remedy),)


def warn_about_user(user: User, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Warnings about settings of a User that have no effect in its cluster."""
    return tuple(_warnings(user, cluster))


def _warnings(user: User, cluster: BrokerCluster) -> Iterator[Problem]:
    spec, name = user.spec, cluster.metadata.name
    authorization = cluster.spec.authorization
    if spec.authorization is not None and authorization is None:
        yield Problem(
            "spec.authorization",
            f"has no effect: cluster {name} has no spec.authorization, so everybody may do "
            "everything",
            "set spec.authorization.type of the BrokerCluster to simple",
        )
    supers = () if authorization is None else authorization.super_users
    if spec.authorization is not None and principal_of(user) in map(super_user, supers):
        yield Problem(
            "spec.authorization",
            f"has no effect: the user is one of spec.authorization.superUsers of cluster {name}",
            "remove it from there, or remove spec.authorization",
        )
    if spec.quotas not in (None, Quotas()) and not needs_access_list(cluster):
        yield Problem(
            "spec.quotas",
            f"have no effect: brokers of cluster {name} do not read its Users, because it has "
            "neither spec.authorization nor a listener with passwords",
            "set spec.authorization.type of the BrokerCluster to simple",
        )
    if spec.quotas not in (None, Quotas()) and spec.username == WILDCARD:
        message = "have no effect: nobody has the name *, which is for rules about everybody"
        yield Problem("spec.quotas", message, "set the quotas of each User")
    type_ = spec.authentication_type
    needed = "tls" if has_certificate(user) else str(type_)
    if type_ not in (None, UserAuthenticationType.TLS) and not _has_listener(cluster, needed):
        yield Problem(
            "spec.authentication.type",
            f"is {type_}, but no listener of cluster {name} has authentication.type {needed}",
            "add such a listener to the BrokerCluster, or change the type",
        )


def _has_listener(cluster: BrokerCluster, type_: str) -> bool:
    """Whether clients of a listener authenticate in this way."""
    return any(listener.authentication_type == type_ for listener in cluster.spec.listeners)


def _name(user: User) -> Iterator[Problem]:
    """Problems with the name."""
    is_subject = has_certificate(user) and user.spec.username is None
    if is_subject and len(user.metadata.name) > MAX_COMMON_NAME_LENGTH:
        yield Problem(
            "metadata.name",
            f"has {len(user.metadata.name)} characters, too many for the subject of a certificate",
            f"shorten it to {MAX_COMMON_NAME_LENGTH}",
        )


def _username(user: User) -> Iterator[Problem]:
    """Problems with the name that is not the object's."""
    name, type_ = user.spec.username, user.spec.authentication_type
    if name is None:
        return
    if type_ is UserAuthenticationType.TLS:
        message = "is set, but the operator issues certificates for CN=<metadata.name> only"
        yield Problem("spec.username", message, "remove it, or use tls-external")
    elif type_ is UserAuthenticationType.TLS_EXTERNAL and "=" not in name:
        message = "is not the subject of a certificate"
        yield Problem("spec.username", message, "write the whole subject, like CN=alice,O=example")
    elif type_ is UserAuthenticationType.SCRAM_SHA_512 and (why := why_no_login_name(name)):
        yield Problem("spec.username", why, "choose another name")


def why_no_login_name(name: str) -> str:
    """Why nobody can log in with a password under this name, in a clause; empty if one can. A name
    with `=` could be the subject of another user's certificate, and that of a ServiceAccount is
    proved by Kubernetes only."""
    if not name.isascii() or not name.isprintable() or "=" in name:
        return "must be printable ASCII without = for a user with a password"
    if name.startswith(ACCOUNT_PREFIX):
        return "is the name of a ServiceAccount, which logs in with its token"
    if name in (WILDCARD, ANONYMOUS_NAME):
        return f"is {name}, which stands for all users, or for those without a login"
    return ""


def _password(user: User) -> Iterator[Problem]:
    """Problems with the source of the password."""
    given = user.spec.authentication
    is_scram = user.spec.authentication_type is UserAuthenticationType.SCRAM_SHA_512
    if given is not None and given.password is not None and not is_scram:
        message = "is set, but only scram-sha-512 uses it"
        yield Problem("spec.authentication.password", message, "remove it")
    if given is not None and given.verifier_key is not None:
        field = "spec.authentication.verifierKey"
        if not is_scram:
            yield Problem(field, "is set, but only scram-sha-512 uses it", "remove it")
        elif given.password is not None:
            yield Problem(field, "is set beside password", "remove one of them")
        elif not given.verifier_key.startswith(VERIFIER_ENTRY):
            message = f"is {given.verifier_key}, and no entry of a verifier"
            yield Problem(field, message, "remove it: only Kafka's clients need it")


def _acls(user: User) -> Iterator[Problem]:
    """Problems with the rules."""
    rules = () if user.spec.authorization is None else user.spec.authorization.acls
    for index, rule in enumerate(rules):
        field = f"spec.authorization.acls[{index}]"
        if not rule.every_operation:
            yield Problem(f"{field}.operations", "is empty", "list at least one, like Read")
        yield from _resource(rule.resource, f"{field}.resource")


def _resource(resource: AclResource, field: str) -> Iterator[Problem]:
    """Problems with the resource of a rule."""
    if resource.type is not AclResourceType.CLUSTER:
        if resource.name is None:
            yield Problem(f"{field}.name", "is missing", "set it, or * for all")
        return
    if resource.name not in (None, CLUSTER_NAME):
        yield Problem(f"{field}.name", "is set, but there is only one cluster", "remove it")
    if resource.pattern_type is AclRulePatternType.PREFIX:
        message = "is prefix, but there is only one cluster"
        yield Problem(f"{field}.patternType", message, "remove it")
