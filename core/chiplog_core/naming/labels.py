"""The labels, annotations and finalizers of Chiplog's objects."""

from chiplog_core.naming import api

CLUSTER = f"{api.GROUP}/cluster"
"""Label: name of the BrokerCluster an object belongs to."""

BROKER_ID = f"{api.GROUP}/broker-id"
"""Label of a broker's own objects: its id."""

NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "chiplog-operator"
"""Value of `MANAGED_BY`, and the field manager of the operator's own writes. The operator's pods
have it as `NAME`."""

KAFKA_ADMIN = "chiplog-kafka-admin"
"""Field manager of the operator's writes for Kafka's admin clients."""

BROKER = "broker"
"""Value of `COMPONENT` on the brokers' pods."""

REVISION = f"{api.GROUP}/revision"
"""Annotation of a broker's pod: hash of the settings with which it was started and which only a
restart can change."""

MANIFEST_HASH = f"{api.GROUP}/manifest-hash"
"""Annotation of every object the operator applies: hash of the manifest as it was applied."""

ADMIN_REQUEST = f"{api.GROUP}/admin-request"
"""Annotation of a Topic: the last admin client's request that was carried out on it."""

CREATED_BY = f"{api.GROUP}/created-by"
KAFKA_CLIENT = "kafka-client"
"""Label of a User, and its value: a client of Kafka's protocol made the User. When clients have
removed all that it says, it is deleted."""

RENEWAL = f"{api.GROUP}/renewal"
"""Annotation of a broker's Lease: the last number that the broker made durable on its disk."""

PAUSE = f"{api.GROUP}/pause-reconciliation"
"""Annotation of a user's object: "true" stops every change by the operator until the annotation is
removed."""

MANUAL_ROLLING_UPDATE = f"{api.GROUP}/manual-rolling-update"
"""Annotation of a broker's StatefulSet or pod: "true" restarts the broker as soon as no partition
becomes unavailable by that. On a BrokerCluster: all its brokers, one after the other."""

APPROVED_REVISION = f"{api.GROUP}/approved-revision"
"""Annotation of a BrokerCluster: the revision (status.revision) to which its brokers may be
restarted, if spec.rollPolicy.approval is Manual."""

REMOVE_BROKER_IDS = f"{api.GROUP}/remove-broker-ids"
"""Annotation of a BrokerCluster: ids of brokers, like "2,5", that are removed first, in this order,
when spec.replicas is lowered. Strimzi has `remove-node-ids`."""

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation that `kubectl rollout restart` sets in a pod template."""

RESTART_ANNOTATIONS = (MANUAL_ROLLING_UPDATE, RESTARTED_AT)

DELETE_POD_AND_PVC = f"{api.GROUP}/delete-pod-and-pvc"
"""Annotation of a broker's pod: "true" deletes the pod and its volume, and both are created again,
as soon as other replicas have everything that is on the volume. Strimzi has the same annotation."""

POD_ANNOTATIONS = (*RESTART_ANNOTATIONS, DELETE_POD_AND_PVC)
"""The annotations of pods, StatefulSets and their templates that the operator acts on."""

MANAGED = f"{api.GROUP}/managed"
"""Annotation of a Topic: with "false" the operator does not change the topic, not even when the
object is deleted."""

UNCLEAN_ELECTION = f"{api.GROUP}/unclean-election"
"""Annotation of a Topic: partitions whose loss of records is accepted, like "3@17,4@9". Each names
a partition and its partitionEpoch, as the Ready condition prints them, so that it is valid for one
decision only. "3@17/2+5" also continues without the reports of brokers 2 and 5."""

DISCOVERED = f"{api.GROUP}/discovered"
"""Label of a ConsumerGroup: "true" if the operator created it for a group that it discovered."""

REBALANCE = f"{api.GROUP}/rebalance"
"""Annotation of a Rebalance: approve, stop or refresh. The operator removes it after carrying it
out."""

REBALANCE_AUTO_APPROVAL = f"{api.GROUP}/rebalance-auto-approval"
"""Annotation of a Rebalance: "true" approves each of its proposals."""

REBALANCE_TEMPLATE = f"{api.GROUP}/rebalance-template"
"""Annotation of a Rebalance: with "true" it is not carried out, but is a template for automatic
ones."""

FORCE_RENEW = f"{api.GROUP}/force-renew"
"""Annotation of the Secret with a CA's certificates: "true" renews the certificate of the CA, with
the same key. Strimzi has the same annotation."""

FORCE_REPLACE = f"{api.GROUP}/force-replace"
"""Annotation of the Secret with a CA's private key: "true" makes another key, and a certificate for
it. Strimzi has the same annotation."""

REMOVE_OLD_CA = f"{api.GROUP}/remove-old-ca"
"""Annotation of the Secret with a CA's certificates: "true" removes all but the current one as soon
as no broker uses a certificate that another one issued."""

SCALED_BY = f"{api.GROUP}/scaled-by"
"""Annotation of a Deployment: the name of the ConsumerGroup that may scale it. Without it none may:
a user who may write ConsumerGroups need not have permissions for Deployments."""

SPARK_OWNER_KIND = f"{api.GROUP}/spark-kind"
"""Label of the objects of a Spark job: the kind of the object that asked for the job."""

SPARK_OWNER = f"{api.GROUP}/spark-job"
"""Label of the objects of a Spark job: the name of the object that asked for the job, if it is a
valid label value."""

WATCHES = f"{api.GROUP}/watches"
"""Annotation of an operator's Lease: the namespaces that its holder watches, like "dev,shop",
or "*" for all."""

WATCHES_AS = f"{api.GROUP}/watches-as"
"""Annotation of an operator's Lease: the ServiceAccount of its holder, in the Lease's namespace."""

TOPIC_FINALIZER = f"{api.GROUP}/topic"
"""Holds a deleted Topic until its deletionPolicy is carried out."""


def of_cluster(cluster: str) -> dict[str, str]:
    """The labels of every object that the operator creates for a cluster."""
    return {
        NAME: "chiplog",
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/part-of": "chiplog",
        MANAGED_BY: OPERATOR,
        CLUSTER: cluster,
    }
