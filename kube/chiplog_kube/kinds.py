"""The kinds of objects Chiplog reads or writes, and where the API server has them."""

from dataclasses import dataclass

from chiplog_core.naming import api


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object: `api_version` and `plural` make its path."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        """`/api/v1` for the core group, `/apis/<group>/<version>` for all others."""
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )


def _own(kind: api.ResourceKind) -> Kind:
    return Kind(api.API_VERSION, kind.kind, kind.plural)


BROKER_CLUSTERS = _own(api.BROKER_CLUSTER)
TOPICS = _own(api.TOPIC)
CONSUMER_GROUPS = _own(api.CONSUMER_GROUP)
BROKERS = _own(api.BROKER)
PARTITION_MAPS = _own(api.PARTITION_MAP)
VERIFICATIONS = _own(api.VERIFICATION)
REBALANCES = _own(api.REBALANCE)
USERS = _own(api.USER)
ACCESS_LISTS = _own(api.ACCESS_LIST)

CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
EVENTS = Kind("v1", "Event", "events")
NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods")
SECRETS = Kind("v1", "Secret", "secrets")
SERVICES = Kind("v1", "Service", "services")
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
VOLUME_CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
AUTOSCALERS = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
JOBS = Kind("batch/v1", "Job", "jobs")
KUBEFLOW_APPLICATIONS = Kind(
    "sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications"
)
APACHE_APPLICATIONS = Kind("spark.apache.org/v1", "SparkApplication", "sparkapplications")
STORAGE_CLASSES = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
STATEFUL_SETS = Kind("apps/v1", "StatefulSet", "statefulsets")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
DISRUPTION_BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
INGRESSES = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
TLS_ROUTES = Kind("gateway.networking.k8s.io/v1", "TLSRoute", "tlsroutes")
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
ROLES = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
DEFINITIONS = Kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
