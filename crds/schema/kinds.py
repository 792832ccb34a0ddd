"""All definitions, in the order in which people meet them."""

from crds.schema.access_list import ACCESS_LIST
from crds.schema.broker import BROKER
from crds.schema.broker_cluster import BROKER_CLUSTER
from crds.schema.consumer_group import CONSUMER_GROUP
from crds.schema.partition_map import PARTITION_MAP
from crds.schema.rebalance import REBALANCE
from crds.schema.topic import TOPIC
from crds.schema.user import USER
from crds.schema.verification import VERIFICATION

DEFINITIONS = (
    BROKER_CLUSTER,
    TOPIC,
    CONSUMER_GROUP,
    USER,
    VERIFICATION,
    REBALANCE,
    BROKER,
    PARTITION_MAP,
    ACCESS_LIST,
)
