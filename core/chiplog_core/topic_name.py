"""Which names a topic may have: Kafka's rule, and the two traps that come with it.

Kafka allows both '.' and '_' in a topic name but turns each '.' into '_' in its metrics, so
`a.b` and `a_b` are two topics with one set of metrics. Kafka refuses the second of them and so
does Chiplog: `collision_key` is equal for names that collide.
"""

from chiplog_core.limits import MAX_TOPIC_NAME_LENGTH

TOPIC_NAME_PATTERN = f"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME_LENGTH}}}"
TOPIC_NAME_MEANING = (
    f"1 to {MAX_TOPIC_NAME_LENGTH} letters, digits, '.', '_' and '-'"  # ASCII, as Kafka says
)

NAMES_OF_NO_TOPIC = (".", "..")
"""They match the pattern but would leave the data directory."""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    "__cluster_metadata",
    "__share_group_state",
)
"""Names Kafka keeps for itself. Only the operator makes such topics and nobody changes them."""


def collision_key(name: str) -> str:
    """A key that is equal for two names that Kafka's metrics cannot distinguish."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether the cluster itself owns a topic of this name."""
    return name in INTERNAL_TOPICS
