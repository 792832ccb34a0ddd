"""Which names a topic may have, by Kafka's rules.

Kafka allows both '.' and '_' in a topic name, but replaces each '.' by '_' in its metrics, so `a.b`
and `a_b` would have the same metrics. Kafka and Chiplog refuse the second of two such topics:
`collision_key` is equal for names that collide.
"""

from chiplog_core.limits import MAX_TOPIC_NAME_LENGTH

TOPIC_NAME_PATTERN = f"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME_LENGTH}}}"
TOPIC_NAME_MEANING = (
    f"1 to {MAX_TOPIC_NAME_LENGTH} letters, digits, '.', '_' and '-'"  # ASCII, as Kafka says
)

NAMES_OF_NO_TOPIC = (".", "..")
"""Names that match the pattern, but as names of directories would be outside of the data
directory."""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    "__cluster_metadata",
    "__share_group_state",
)
"""Names that Kafka reserves. Only the cluster itself creates such topics, and no client may change
them."""


def collision_key(name: str) -> str:
    """A key that is equal for two names that Kafka's metrics cannot distinguish."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether a topic of this name is an internal topic."""
    return name in INTERNAL_TOPICS
