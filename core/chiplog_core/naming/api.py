"""The kinds of the API group chiplog.dev and what kubectl calls them."""

from dataclasses import dataclass

GROUP = "chiplog.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "chiplog"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """The names of one kind of object."""

    kind: str
    plural: str
    short_name: str

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def definition_name(self) -> str:
        """The name of the kind's CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


BROKER_CLUSTER = ResourceKind("BrokerCluster", "brokerclusters", "cbc")
TOPIC = ResourceKind("Topic", "topics", "ct")
CONSUMER_GROUP = ResourceKind("ConsumerGroup", "consumergroups", "ccg")
BROKER = ResourceKind("Broker", "brokers", "brk")
PARTITION_MAP = ResourceKind("PartitionMap", "partitionmaps", "pmap")
VERIFICATION = ResourceKind("Verification", "verifications", "ver")
REBALANCE = ResourceKind("Rebalance", "rebalances", "reb")
USER = ResourceKind("User", "users", "cu")
ACCESS_LIST = ResourceKind("AccessList", "accesslists", "acl")
