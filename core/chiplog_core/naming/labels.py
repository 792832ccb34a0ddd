"""The labels, annotations and finalizers by which Chiplog's objects are found and steered."""

from chiplog_core.naming import api

CLUSTER = f"{api.GROUP}/cluster"
"""Label: name of the BrokerCluster an object belongs to."""

BROKER_ID = f"{api.GROUP}/broker-id"
"""Label of a broker's own objects: its id."""

NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "chiplog-operator"
"""Value of `MANAGED_BY`, and the field manager of everything the operator decides. Its own pods
have it as `NAME`."""

KAFKA_ADMIN = "chiplog-kafka-admin"
"""Field manager of what Kafka's admin clients asked for."""

BROKER = "broker"
"""Value of `COMPONENT` on the brokers' pods."""

REVISION = f"{api.GROUP}/revision"
"""Annotation of a broker's pod: hash of what it was started with and only a restart can change."""

MANIFEST_HASH = f"{api.GROUP}/manifest-hash"
"""Annotation of every object the operator applies: hash of the manifest as it was applied."""

ADMIN_REQUEST = f"{api.GROUP}/admin-request"
"""Annotation of a Topic: the last admin client's request that was carried out on it."""

RENEWAL = f"{api.GROUP}/renewal"
"""Annotation of a broker's Lease: the last number that the broker made durable on its disk."""

PAUSE = f"{api.GROUP}/pause-reconciliation"
"""Annotation of a user's object: "true" stops every change by the operator until it is gone."""

MANUAL_ROLLING_UPDATE = f"{api.GROUP}/manual-rolling-update"
"""Annotation of a broker's StatefulSet or pod: "true" restarts the broker when it can be spared."""

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation by which `kubectl rollout restart` makes a pod template another one."""

RESTART_ANNOTATIONS = (MANUAL_ROLLING_UPDATE, RESTARTED_AT)

MANAGED = f"{api.GROUP}/managed"
"""Annotation of a Topic: "false" leaves the topic alone, also when the object is deleted."""

UNCLEAN_ELECTION = f"{api.GROUP}/unclean-election"
"""Annotation of a Topic: partitions whose loss of records is accepted, like "3@17,4@9". Each names
a partition and its partitionEpoch, as the Ready condition prints them: one decision, made once.
"3@17/2+5" also continues without what brokers 2 and 5 have to say."""

DISCOVERED = f"{api.GROUP}/discovered"
"""Label of a ConsumerGroup: "true" where the operator made it for a group that it found."""

REBALANCE = f"{api.GROUP}/rebalance"
"""Annotation of a Rebalance: approve, stop or refresh. Taken away when it was acted upon."""

SCALED_BY = f"{api.GROUP}/scaled-by"
"""Annotation of a Deployment: the name of the ConsumerGroup that may scale it. Without it none may:
who writes ConsumerGroups need not have any right on Deployments."""

SPARK_OWNER_KIND = f"{api.GROUP}/spark-kind"
"""Label of what is made for a Spark job: the kind of the object that asked for it."""

SPARK_OWNER = f"{api.GROUP}/spark-job"
"""Label of what is made for a Spark job: the name of that object, where it fits a label."""

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
