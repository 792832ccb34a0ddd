"""The StatefulSet of one broker, which exists for its stable name and its volume.

Kubernetes starts no broker again on its own (`OnDelete`): in which order, and when, is the
planner's to say. Nor does it ever delete the volume.
"""

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_core.quantities import quantity_value
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import broker_object, broker_selector
from chiplog_operator.resources.pod import pod_template, with_revision
from chiplog_operator.resources.settings import BuildSettings
from chiplog_operator.resources.volumes import DATA_VOLUME


def stateful_set(
    cluster: BrokerCluster, broker_id: BrokerId, settings: BuildSettings, revision: str
) -> Manifest:
    """The StatefulSet of one broker, with the revision for its pod."""
    spec = {
        "replicas": 1,
        "serviceName": names.brokers_service(cluster.metadata.name),
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "revisionHistoryLimit": 2,
        "selector": {"matchLabels": broker_selector(cluster, broker_id)},
        "template": with_revision(pod_template(cluster, broker_id, settings), revision),
        "volumeClaimTemplates": [_claim_template(cluster)],
    }
    name = names.stateful_set(cluster.metadata.name, broker_id)
    return broker_object(kinds.STATEFUL_SETS, name, cluster, broker_id, {"spec": spec})


def _claim_template(cluster: BrokerCluster) -> dict[str, object]:
    """The template of the broker's data volume claim."""
    storage = cluster.spec.storage
    spec: dict[str, object] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.class_ is not None:
        spec["storageClassName"] = storage.class_
    return {
        "apiVersion": kinds.VOLUME_CLAIMS.api_version,
        "kind": kinds.VOLUME_CLAIMS.kind,
        # The claim gets its labels from the StatefulSet's selector.
        "metadata": {"name": DATA_VOLUME},
        "spec": spec,
    }


def must_be_recreated(live: Manifest, wanted: Manifest) -> bool:
    """Whether the volume claim template changed, which Kubernetes does not allow in an update.

    The StatefulSet is then deleted without its pod and claim (`orphan`) and created again, and
    adopts both.
    """
    return _volume(live) != _volume(wanted)


def _volume(stateful_set: Manifest) -> tuple[object, ...]:
    """Size and storage class of the volume claim template. A class that the spec omits is
    omitted in the stored object too."""
    (claim,) = stateful_set["spec"]["volumeClaimTemplates"]
    size = quantity_value(claim["spec"]["resources"]["requests"]["storage"])
    return size, claim["spec"].get("storageClassName")
