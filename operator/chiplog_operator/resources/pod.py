"""The pod of a broker: restricted, with its settings and what it may access.

A user's template adds to it and never takes away: labels and annotations that Chiplog itself sets
stay as they are.
"""

from chiplog_core.ids import BrokerId
from chiplog_core.manifest.writing import write
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME
from chiplog_core.model.pod import PodTemplate
from chiplog_core.naming import labels, names, ports
from chiplog_operator.resources.config_map import FILE_NAME
from chiplog_operator.resources.objects import broker_labels, brokers_selector
from chiplog_operator.resources.probes import HEALTH_PORT_NAME, probes
from chiplog_operator.resources.settings import BuildSettings
from chiplog_operator.resources.volumes import (
    CONFIG_PATH,
    DATA_PATH,
    SECRET_PATH,
    data_mount,
    pod_volumes,
)

CONTAINER = "broker"
USER_ID = 10_001
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a pod's addresses are all its own
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
HOSTNAME_KEY = "kubernetes.io/hostname"

_ENVIRONMENT = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "POD_UID": "metadata.uid",
    "NODE_NAME": "spec.nodeName",
}


def pod_template(
    cluster: BrokerCluster, broker_id: BrokerId, settings: BuildSettings
) -> dict[str, object]:
    """The pod template of one broker, without the revision annotation: the revision is a hash of
    this template."""
    template = cluster.spec.template or PodTemplate()
    return {
        "metadata": {
            "labels": {**template.labels, **broker_labels(cluster, broker_id)},
            "annotations": dict(template.annotations),
        },
        "spec": {
            **_identity_fields(cluster, broker_id),
            **_scheduling_fields(cluster, template),
            "terminationGracePeriodSeconds": cluster.spec.termination_grace_period_seconds,
            "containers": [_container(cluster, broker_id, settings)],
            "volumes": [volume.to_volume() for volume in pod_volumes(cluster, broker_id)],
        },
    }


def _identity_fields(cluster: BrokerCluster, broker_id: BrokerId) -> dict[str, object]:
    """The fields for the pod's identity and permissions."""
    return {
        "serviceAccountName": names.service_account(cluster.metadata.name, broker_id),
        "automountServiceAccountToken": False,
        # Without this, each pod would get environment variables for every Service of the namespace.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _scheduling_fields(cluster: BrokerCluster, template: PodTemplate) -> dict[str, object]:
    """The fields that decide on which node the pod runs. Spreading is only preferred: a broker
    in a full zone is better than none."""
    selector = {"matchLabels": brokers_selector(cluster)}
    other_nodes = {"topologyKey": HOSTNAME_KEY, "labelSelector": selector}
    preferred = [{"weight": 100, "podAffinityTerm": other_nodes}]
    spreading: dict[str, object] = {
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
    }
    if cluster.spec.rack:
        spreading["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": cluster.spec.rack.topology_key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ]
    fields: dict[str, object] = {
        "nodeSelector": dict(template.node_selector),
        "tolerations": [write(toleration) for toleration in template.tolerations],
        "priorityClassName": template.priority_class_name,
        "imagePullSecrets": [{"name": name} for name in template.image_pull_secrets],
    }
    return spreading | {name: value for name, value in fields.items() if value}


def _container(
    cluster: BrokerCluster, broker_id: BrokerId, settings: BuildSettings
) -> dict[str, object]:
    """The broker's container, which runs without privileges on a read-only root file system."""
    spec = cluster.spec
    container: dict[str, object] = {
        "name": CONTAINER,
        "image": spec.image or settings.broker_image,
        "imagePullPolicy": spec.image_pull_policy.value,
        "args": _arguments(cluster, broker_id),
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in _ENVIRONMENT.items()
        ],
        "ports": _ports(cluster),
        **probes(),
        # The broker writes its incarnation there, which proves that this process ended.
        "terminationMessagePath": TERMINATION_MESSAGE_PATH,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            data_mount(),
            *(volume.to_mount() for volume in pod_volumes(cluster, broker_id)),
        ],
    }
    return {**container, "resources": write(spec.resources)} if spec.resources else container


def _arguments(cluster: BrokerCluster, broker_id: BrokerId) -> list[str]:
    """The command-line arguments of the broker."""
    return [
        *("--cluster", cluster.metadata.name),
        *("--broker-id", str(broker_id)),
        *("--config", f"{CONFIG_PATH}/{FILE_NAME}"),
        *("--data", DATA_PATH),
        *("--credentials", SECRET_PATH),
        *("--health-address", f"{EVERY_ADDRESS}:{ports.HEALTH}"),
        *("--metrics-address", f"{EVERY_ADDRESS}:{ports.METRICS}"),
    ]


def _ports(cluster: BrokerCluster) -> list[dict[str, object]]:
    """The ports of the broker's container."""
    # A listener may be called metrics, like another port here, or 9092, which is no valid name of a
    # port: hence the prefix tcp-.
    return [
        *(_port(f"tcp-{listener.name}", listener.port) for listener in cluster.listeners),
        _port(f"tcp-{INTERNAL_LISTENER_NAME}", ports.INTERNAL),
        _port("metrics", ports.METRICS),
        _port(HEALTH_PORT_NAME, ports.HEALTH),
        *([_port("operator", ports.OPERATOR)] if cluster.spec.has_tls else []),
    ]


def _port(name: str, port: int) -> dict[str, object]:
    return {"name": name, "containerPort": port, "protocol": "TCP"}


def with_revision(template: dict[str, object], revision: str) -> dict[str, object]:
    """The template with the revision as an annotation, so that each pod has the revision with
    which it was started."""
    metadata = template["metadata"]
    assert isinstance(metadata, dict)
    annotations = {**metadata["annotations"], labels.REVISION: revision}
    return {**template, "metadata": {**metadata, "annotations": annotations}}
