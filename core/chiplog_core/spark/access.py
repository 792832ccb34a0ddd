"""The ServiceAccounts of an application's driver and executors, and their permissions.

The driver may create, watch and delete pods, and patch the one ConfigMap that gets its result.
Which verbs Spark 4.2 uses is in its classes `ExecutorPodsAllocator`, `ExecutorPodsLifecycleManager`
and `KubernetesClusterSchedulerBackend`. `properties.FIXED` turns off the functions of Spark that
would need permissions for every ConfigMap, Service and volume claim of the namespace. Executors
have no permissions.
"""

from chiplog_core.spark.application import Application
from chiplog_core.spark.pods import Manifest, object_of

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"{RBAC_GROUP}/v1"

POD_VERBS = ("create", "delete", "deletecollection", "get", "list", "watch")
"""`deletecollection` is how Spark deletes all executors of an application by their labels."""

RESULT_VERBS = ("patch",)

OPERATOR_RULES: tuple[Manifest, ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": list(POD_VERBS)},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(RESULT_VERBS)},
)
"""The permissions that the operator needs itself to grant them to drivers: the API server refuses
a Role with more permissions than its creator has."""


def objects(application: Application) -> tuple[Manifest, ...]:
    """The ServiceAccounts, the driver's Role and its RoleBinding, in the order in which to
    create them."""
    accounts = [application.executor_service_account]
    # Otherwise the spec names an existing ServiceAccount for the driver.
    if application.service_account == application.own_service_account:
        accounts.append(application.own_service_account)
    return (
        *(_account(application, name) for name in sorted(accounts)),
        _role(application),
        _binding(application),
    )


def _account(application: Application, name: str) -> Manifest:
    """A ServiceAccount of the application, whose token is not mounted automatically."""
    # Only the driver's pod needs the API; its template mounts a token explicitly.
    parts = {"automountServiceAccountToken": False}
    return object_of(application, "v1", "ServiceAccount", name, parts)


def _role(application: Application) -> Manifest:
    """The Role of the driver: it may manage its pods and write its result."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": list(POD_VERBS)},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [application.result_config_map],
            "verbs": list(RESULT_VERBS),
        },
    ]
    return object_of(application, RBAC, "Role", application.own_service_account, {"rules": rules})


def _binding(application: Application) -> Manifest:
    """The RoleBinding of the driver's Role."""
    name = application.own_service_account
    account = {
        "kind": "ServiceAccount",
        "name": application.service_account,
        "namespace": application.namespace,
    }
    parts = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
        "subjects": [account],
    }
    return object_of(application, RBAC, "RoleBinding", name, parts)
