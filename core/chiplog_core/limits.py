"""How large things may become: every list, text and count that crosses the Kubernetes API.

One table for the resource definitions, the operator and the brokers. Bounds are what lets the
API server prove that validation rules are cheap, and what keeps an object below the 1.5 MiB that
etcd takes.
"""

MAX_BROKERS = 200
"""Brokers of one cluster at a time; broker ids go further, because they are never reused."""

MAX_PARTITIONS_PER_TOPIC = 2_000
"""One topic is one PartitionMap object, and each partition takes about 150 bytes of it."""

MAX_REPLICAS = 32_767
"""Kafka's own bound: a replication factor is an int16."""

MAX_REPLICAS_PER_PARTITION = 32
"""How many brokers one partition's entry may name, a move's old and new replicas together."""

MAX_TOPIC_NAME_LENGTH = 249
MAX_GROUP_ID_LENGTH = 255

MAX_GENERATIONS = 4
"""Of one topic name: the one in force, one being copied, and what is in the trash."""

MAX_TOMBSTONES = 100
MAX_PROPOSALS = 5_000
MAX_ADMIN_REQUESTS = 100
MAX_ADMIN_BODY_LENGTH = 65_536
MAX_ADMIN_RESULTS = 1_000
MAX_ADMIN_REQUESTS_BYTES = 384 * 1024
"""All requests of a broker together, as they lie in its object."""
MAX_DATA_DIRECTORIES = 16
MAX_DAMAGED_PARTITIONS = 1_000
MAX_DAMAGE_HISTORY = 10
"""Repaired replicas that a broker still reports as past damage."""
MAX_REPLICA_REPORTS = 5_000
MAX_REFETCHES = 100
"""Replicas that are ordered to be fetched again, of one broker and of one Verification."""
MAX_ENDPOINTS = 16

MAX_LISTENERS = 10
MAX_LISTENER_PEERS = 20
MAX_PEER_ITEMS = 20
"""Labels, values or address blocks in one part of a listener's peer."""
MAX_CONFIG_ENTRIES = 100
MAX_CONDITIONS = 20
MAX_GROUP_TOPICS = 100
MAX_GROUP_STATUS_MEMBERS = 200
MAX_GROUP_STATUS_PARTITIONS = 1_000

MAX_VERIFIED_TOPICS = 1_000
MAX_RUN_HISTORY = 20
MAX_LEADER_MOVES = 1_000
"""Of one proposal: 100 bytes each, in the status of a Rebalance."""
MAX_PROPOSAL_BROKERS = 200
MAX_HOT_KEYS = 20
MAX_PARTITION_ADVICE = 50
MAX_REASSIGNMENT_LENGTH = 262_144
"""Characters of Kafka's JSON in a proposal."""

MAX_EXCHANGED_GROUPS = 1_000
"""Groups that the operator names to a broker in one request."""

MAX_EXCHANGED_ITEMS = 20_000
"""Of any list in what operator and broker say to each other: about 2 MB of JSON."""

MAX_EXCHANGED_OFFSETS = 100
"""Of one partition whose records' times are asked for: each may have to be looked up on disk."""

MAX_NAME_LENGTH = 253
"""Of a Kubernetes object: a DNS-1123 subdomain."""

MAX_LABEL_LENGTH = 63
"""Of a DNS label, hence of a Service's name and a label's value."""

MAX_MESSAGE_LENGTH = 32_768
"""Of a condition's message, as in metav1.Condition."""
