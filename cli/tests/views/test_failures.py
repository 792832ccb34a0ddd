"""What librdkafka reports, in Kafka's words and with a remedy."""

from confluent_kafka import KafkaError, KafkaException

from chiplog_cli.librdkafka.admin import topic_id_text
from chiplog_cli.librdkafka.failures import not_deleted, refused


def test_a_broker_refuses() -> None:
    error = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")
    found = refused(KafkaException(error), "topic 'a'")
    assert found.code == "TOPIC_ALREADY_EXISTS"
    assert str(found) == (
        "topic 'a': Topic 'a' already exists (TOPIC_ALREADY_EXISTS): "
        "use --if-not-exists to ignore this"
    )


def test_names_are_kafkas() -> None:
    found = refused(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "topic 'a'")
    assert found.code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_words_of_the_broker_stand_alone_where_they_say_what_to_do() -> None:
    error = KafkaError(KafkaError.INVALID_CONFIG, "config[a] is no key: did you mean b?")
    assert str(refused(error, "topic 't'")) == (
        "topic 't': config[a] is no key: did you mean b? (INVALID_CONFIG)"
    )


def test_no_answer() -> None:
    found = refused(KafkaError(KafkaError._TIMED_OUT), "the cluster")
    assert found.code == "REQUEST_TIMED_OUT"
    assert "the cluster: no answer in time: the bootstrap broker answered" in str(found)


def test_what_is_no_error_of_kafkas() -> None:
    assert str(refused(KafkaException("odd"), "topic 't'")) == "topic 't': odd"


def test_topic_ids_are_safe_in_urls_as_kafkas_are() -> None:
    assert topic_id_text("542+CHCwRVWdfN+6LDA/jA==") == "542-CHCwRVWdfN-6LDA_jA"


def test_why_a_topic_is_not_deleted_is_said_where_the_broker_may_not_say_it() -> None:
    found = not_deleted(refused(KafkaError(KafkaError.POLICY_VIOLATION), "topic 't'"))
    assert str(found).startswith(
        "topic 't': Policy violation (POLICY_VIOLATION): "
        "its Topic object on Kubernetes is managed by "
    )
    assert "`kubectl get topics.chiplog.dev -A` shows it" in str(found)
    other = refused(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "topic 't'")
    assert not_deleted(other) is other
