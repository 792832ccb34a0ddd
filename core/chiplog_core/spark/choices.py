"""Which image and which account a Spark job may be run with: whose choice counts, and where.

The driver may make pods in the namespace it runs in, so a user who chooses its image or its account
has every ServiceAccount and Secret there. Who may make pods there has them anyhow. That is known of
the asker alone, at admission, so the API server judges it (the chart's policy `spark.yaml`); where
it does not, only what the operator's installer lists may be named.

| Named by | In force |
| --- | --- |
| nobody | the operator's image, and an account made for the run |
| the BrokerCluster | in its own namespace alone, where it may be named at all |
| the object that wants the job | where it may be named at all, or the BrokerCluster of the same \
namespace names the same |
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from chiplog_core.model.spark import SparkOverrides, SparkSettings
from chiplog_core.problems import Problem, Reason

_HOW = (
    "ask the cluster administrator to add it to {value} of the operator's chart; or, if the "
    "chart's admissionPolicies check this object, let somebody write it who may create pods in "
    "namespace {namespace}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the administrator who installed the operator allows for jobs."""

    images: frozenset[str] = frozenset()
    """Whole references, for every namespace."""
    service_accounts: frozenset[str] = frozenset()
    """As `namespace/name`."""
    is_judged_at_admission: bool = False
    """The API server lets nobody name an image or account who may not make pods there."""


def check_choice(
    chosen: SparkSettings | SparkOverrides,
    namespace: str,
    allowed: Allowed,
    field: str = "spec.spark",
) -> tuple[Problem, ...]:
    """Problems with images and ServiceAccounts that jobs in this namespace may not use. `field`
    is where they are named."""
    if allowed.is_judged_at_admission:
        return ()
    return tuple(_refused(chosen, namespace, allowed, field))


def check_own_choice(
    chosen: SparkOverrides,
    of_cluster: SparkSettings,
    namespace: str,
    allowed: Allowed,
) -> tuple[Problem, ...]:
    """`check_choice` for an object, which may repeat what its cluster names. `of_cluster` comes
    from `in_namespace`."""
    other = replace(
        chosen,
        image=_if_different(chosen.image, of_cluster.image),
        service_account_name=_if_different(
            chosen.service_account_name, of_cluster.service_account_name
        ),
    )
    return check_choice(other, namespace, allowed)


def in_namespace(settings: SparkSettings | None, of_cluster: str, namespace: str) -> SparkSettings:
    """A cluster's Spark settings for jobs in `namespace`; `of_cluster` is the cluster's namespace.

    Jobs in another namespace do not get the cluster's image and ServiceAccount: the image must not
    run with that namespace's permissions, and a ServiceAccount of the same name there is another
    one.
    """
    found = settings or SparkSettings()
    if namespace == of_cluster:
        return found
    return replace(found, image=None, service_account_name=None)


def _if_different(named: str | None, other: str | None) -> str | None:
    """The name; None if the cluster names the same."""
    return None if named == other else named


def _refused(
    chosen: SparkSettings | SparkOverrides, namespace: str, allowed: Allowed, field: str
) -> Iterator[Problem]:
    """The problems with an image or ServiceAccount that is not allowed."""
    image, account = chosen.image, chosen.service_account_name
    if image is not None and image not in allowed.images:
        yield _problem(f"{field}.image", image, "spark.allowedImages", namespace)
    if account is not None and f"{namespace}/{account}" not in allowed.service_accounts:
        yield _problem(
            f"{field}.serviceAccountName",
            f"{namespace}/{account}",
            "spark.allowedServiceAccounts",
            namespace,
        )


def _problem(field: str, named: str, value: str, namespace: str) -> Problem:
    how = _HOW.format(value=value, namespace=namespace)
    return Problem(
        field,
        f"is {named}, which is not allowed here",
        f"remove it, or {how}",
        Reason.NOT_ALLOWED,
    )
