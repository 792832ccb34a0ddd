"""Limits of all lists, texts and counts in objects of the Kubernetes API.

The resource definitions, the operator and the brokers use the same limits. The API server accepts
validation rules only if it can bound their cost with such limits, and they keep each object below
the 1.5 MiB that etcd accepts.
"""

MAX_BROKERS = 200
"""Brokers of one cluster at the same time. Broker ids may be larger, because they are never
reused."""

MAX_PARTITIONS_PER_TOPIC = 2_000
"""A topic has one PartitionMap object, in which each partition takes about 150 bytes."""

MAX_REPLICAS = 32_767
"""Kafka's own limit: a replication factor is an int16."""

MAX_REPLICAS_PER_PARTITION = 32
"""Brokers in one partition's entry, including the old and the new replicas of a move."""

MAX_TOPIC_NAME_LENGTH = 249
MAX_GROUP_ID_LENGTH = 255

MAX_GENERATIONS = 4
"""Generations of one topic name: the current one, one being copied, and those in the trash."""

MAX_TOMBSTONES = 100
MAX_PROPOSALS = 5_000
MAX_ADMIN_REQUESTS = 100
MAX_ADMIN_BODY_LENGTH = 65_536
MAX_ADMIN_RESULTS = 1_000
MAX_ADMIN_REQUESTS_BYTES = 384 * 1024
"""All admin requests in a Broker object together."""
MAX_DATA_DIRECTORIES = 16
MAX_DAMAGED_PARTITIONS = 1_000
MAX_DAMAGE_HISTORY = 10
"""Repaired replicas that a broker still reports as past damage."""
MAX_REPLICA_REPORTS = 5_000
MAX_REFETCHES = 100
"""The most orders to fetch a replica again for one Broker, and the most repairs in the status of
one Verification."""
MAX_ENDPOINTS = 16

MAX_LISTENERS = 10
MAX_LISTENER_PEERS = 20
MAX_ALTERNATIVE_NAMES = 10
"""More names in the brokers' certificates, for one listener."""
MAX_PARENT_REFS = 10
"""Gateways to which the routes of one listener are attached."""
MAX_SOURCE_RANGES = 50
"""Address blocks from which a load balancer takes connections."""
MAX_CERTIFICATES = 10
"""CA certificates in the status of one listener: one, or two while the CA is being replaced."""
MAX_CERTIFICATE_LENGTH = 8_192
"""Characters of a certificate in PEM format; one with an RSA key of 4,096 bits has about 2,000."""
MAX_TRUSTED_CAS = 16
"""CAs of clients that a broker reports one by one for each listener."""
MAX_FILE_PROBLEM_LENGTH = 256
MAX_TRUSTED_CERTIFICATES = 10
"""Secrets with CAs for one listener."""
MAX_URI_LENGTH = 1_024
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
"""Leader moves of one proposal: each takes 100 bytes in the status of a Rebalance."""
MAX_REPLICA_MOVES = 1_000
"""Replica moves of one proposal; the list of a partition's replicas takes 150 bytes."""
MAX_PROPOSAL_BROKERS = 200
MAX_HOT_KEYS = 20
MAX_PARTITION_ADVICE = 50
MAX_REASSIGNMENT_LENGTH = 262_144
"""Characters of Kafka's JSON in a proposal."""

MAX_EXCHANGED_GROUPS = 1_000
"""Groups that the operator names to a broker in one request."""

MAX_EXCHANGED_ITEMS = 20_000
"""Entries of any list in a request or answer between operator and broker: about 2 MB of JSON."""

MAX_EXCHANGED_OFFSETS = 100
"""Records of one partition whose timestamps one request asks for: each may have to be read from
disk."""

MAX_NAME_LENGTH = 253
"""Length of a Kubernetes object's name: a DNS-1123 subdomain."""

MAX_LABEL_LENGTH = 63
"""Length of a DNS label, and so of a Service's name and of a label's value."""

MAX_MESSAGE_LENGTH = 32_768
"""Length of a condition's message, as in metav1.Condition."""

MAX_USERS = 5_000
MAX_SUPER_USERS = 100
MAX_ACLS_PER_USER = 200
MAX_ACL_OPERATIONS = 11
"""Each of Kafka's operations once."""
MAX_ACL_NAME_LENGTH = 1_024
"""Characters of a resource's name, a host or a principal in an ACL."""
MAX_ACCESS_LIST_BYTES = 1_000_000
"""The users in an AccessList, as JSON: etcd accepts 1.5 MiB, with managed fields."""
MAX_CREDENTIALS_BYTES = 700_000
"""Names and values in the Secret with the verifiers of passwords, before Base64; the API server
accepts 1 MiB."""
MAX_USERNAME_LENGTH = MAX_ACL_NAME_LENGTH - len("User:")
"""Characters of a user's name: with `User:` in front of it, it is the principal of ACLs."""
MAX_REQUESTER_LENGTH = 512
"""Characters of a client's principal in a broker's status, which is for people; the rest is cut."""
MAX_USER_ACLS = 200
"""Rules of one User, each of which may have several operations."""
MAX_SECRET_ANNOTATIONS = 50
