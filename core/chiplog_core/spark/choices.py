"""Which image and which ServiceAccount a Spark job may run with.

The driver may create pods in its namespace, so a user who chooses its image or its ServiceAccount
can use every ServiceAccount and Secret there. A user who may create pods there can do so anyway.
Only the admission of the object shows who wrote it, so the API server decides about it (the chart's
policy `spark.yaml`). Without that policy, only images and ServiceAccounts may be named that the
administrator lists in the operator's chart.

| Named by | Used |
| --- | --- |
| nobody | the operator's image, and a ServiceAccount created for the run |
| the BrokerCluster | only in its own namespace, if it is allowed |
| the object that wants the job | if it is allowed, or if the BrokerCluster of the same namespace \
names the same |
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
    """The images and ServiceAccounts that the administrator of the operator allows for jobs."""

    images: frozenset[str] = frozenset()
    """Whole image references, allowed in every namespace."""
    service_accounts: frozenset[str] = frozenset()
    """As `namespace/name`."""
    is_judged_at_admission: bool = False
    """Whether an admission policy decides instead: it lets only users name an image or
    ServiceAccount who may create pods in the namespace."""


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
    """`check_choice` for an object with a job. An image or ServiceAccount that its cluster names,
    too, is always allowed. `of_cluster` are the cluster's settings, from `in_namespace`."""
    differing = replace(
        chosen,
        image=_if_different(chosen.image, of_cluster.image),
        service_account_name=_if_different(
            chosen.service_account_name, of_cluster.service_account_name
        ),
    )
    return check_choice(differing, namespace, allowed)


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


def _problem(field: str, named: str, chart_value: str, namespace: str) -> Problem:
    """The problem with the image or ServiceAccount `named` in this field. `chart_value` is the
    value of the operator's chart that lists the allowed ones."""
    how_to_allow = _HOW.format(value=chart_value, namespace=namespace)
    return Problem(
        field,
        f"is {named}, which is not allowed for jobs in namespace {namespace}",
        f"remove it, or {how_to_allow}",
        Reason.NOT_ALLOWED,
    )
