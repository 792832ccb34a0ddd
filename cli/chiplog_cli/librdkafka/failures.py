"""What librdkafka reports, as one line with a remedy."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from chiplog_cli.errors import BrokerRefused

# Kafka's names, where librdkafka has shorter ones of its own.
NAMES: Mapping[str, str] = {
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "_NOENT": "LEADER_NOT_AVAILABLE",
    "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PARTITION",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PARTITION",
    "_UNSUPPORTED_FEATURE": "UNSUPPORTED_VERSION",
}

TIMED_OUT = "REQUEST_TIMED_OUT"
POLICY_VIOLATION = "POLICY_VIOLATION"
NO_ANSWER = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_MSG_TIMED_OUT"})

NO_RULE = "the user needs a rule that allows it (an ACL): ask the cluster's administrator"

REMEDIES: Mapping[str, str] = {
    TIMED_OUT: "the bootstrap broker answered, but another broker did not; see `chiplog status`, "
    "or raise --request-timeout",
    "_UNKNOWN_PARTITION": "`chiplog topics describe` shows its partitions",
    "UNKNOWN_TOPIC_OR_PARTITION": "`chiplog topics list` shows all topics",
    "LEADER_NOT_AVAILABLE": "`chiplog topics describe --unavailable-partitions` shows the "
    "partitions without a leader",
    "UNSUPPORTED_VERSION": "the brokers do not support this request: use a newer version of them",
    "COORDINATOR_NOT_AVAILABLE": "try again in a moment",
    "COORDINATOR_LOAD_IN_PROGRESS": "try again in a moment",
    "NOT_COORDINATOR": "try again in a moment",
    "NON_EMPTY_GROUP": "stop its consumers first",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers first",
    "REBALANCE_IN_PROGRESS": "the group has members: stop its consumers first",
    "GROUP_ID_NOT_FOUND": "`chiplog groups list` shows all groups",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop its consumers first",
    "TOPIC_AUTHORIZATION_FAILED": NO_RULE,
    "GROUP_AUTHORIZATION_FAILED": NO_RULE,
    "CLUSTER_AUTHORIZATION_FAILED": NO_RULE,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": NO_RULE,
    "TRANSACTIONAL_ID_NOT_FOUND": "`chiplog transactions list` shows all transactional ids",
    "INVALID_REGULAR_EXPRESSION": "correct --transactional-id-pattern",
    "TRANSACTION_COORDINATOR_FENCED": "a coordinator has ended it in the meantime",
    "TOPIC_ALREADY_EXISTS": "use --if-not-exists to ignore this",
}
"""What to do, by librdkafka's or Kafka's name of an error. The messages of Chiplog's brokers mostly
say so themselves."""

WHY_NOT_DELETED = (
    "its Topic object on Kubernetes is managed by kubectl or another tool, has a "
    "spec.deletionPolicy other than Delete, has an annotation that pauses it or makes it "
    "unmanaged, or does not exist; `kubectl get topics.chiplog.dev -A` shows it, and `kubectl "
    "delete` deletes a Topic that is managed on Kubernetes"
)
"""Why a broker answers POLICY_VIOLATION to the deletion of a topic. Its answers to other requests
have a message."""


def refused(error: KafkaError | KafkaException, what: str) -> BrokerRefused:
    """The error for a failed request. `what` names the object, like "topic 'orders'"."""
    kafka_error = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(kafka_error, KafkaError):
        return BrokerRefused("UNKNOWN_SERVER_ERROR", f"{what}: {kafka_error}")
    name = kafka_error.name()
    if name in NO_ANSWER:
        return BrokerRefused(TIMED_OUT, f"{what}: no answer in time", REMEDIES[TIMED_OUT])
    code = NAMES.get(name, name)
    message = kafka_error.str().removeprefix("Broker: ").removeprefix("Local: ").removesuffix(".")
    remedy = REMEDIES.get(name) or REMEDIES.get(code, "")
    return BrokerRefused(code, f"{what}: {message} ({code})", remedy)


def not_deleted(error: BrokerRefused) -> BrokerRefused:
    """The error for a topic that could not be deleted, with possible reasons if a policy forbids
    it. librdkafka uses versions 0 and 1 of DeleteTopics, whose
    answers have no message."""
    if error.code != POLICY_VIOLATION:
        return error
    return BrokerRefused(error.code, error.message, WHY_NOT_DELETED)
