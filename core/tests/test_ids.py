"""The text forms of ids are one to one and refuse what Kafka reserves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import (
    MAX_BROKER_ID,
    MAX_SESSION,
    BrokerId,
    ReplicaRef,
    Session,
    StorageUuid,
    TopicId,
)


def test_a_topic_id_has_kafkas_text_form() -> None:
    topic_id = TopicId(bytes(range(16)))

    assert str(topic_id) == "AAECAwQFBgcICQoLDA0ODw"
    assert TopicId.from_text("AAECAwQFBgcICQoLDA0ODw") == topic_id


def test_the_text_form_is_url_safe() -> None:
    topic_id = TopicId(b"\xfb\xff" * 8)

    assert set("-_") <= set(str(topic_id))
    assert TopicId.from_text(str(topic_id)) == topic_id


@given(st.binary(min_size=16, max_size=16))
def test_every_storage_uuid_reads_as_it_was_written(value: bytes) -> None:
    assert StorageUuid.from_text(str(StorageUuid(value))).value == value


@pytest.mark.parametrize("number", [0, 1])
def test_ids_reserved_by_kafka_are_no_topics(number: int) -> None:
    with pytest.raises(ValueError, match="reserved by Kafka"):
        TopicId(number.to_bytes(16, "big"))


def test_a_drawn_topic_id_is_no_option_of_a_command_line() -> None:
    tokens = iter([b"\xf8" + bytes(15), bytes(16)])

    drawn = TopicId.draw(lambda size_bytes: next(tokens)[:size_bytes])

    assert str(drawn) == "AAAAAAAAQACAAAAAAAAAAA"  # the second: the first begins with '-'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "AAECAwQFBgcICQoLDA0ODw==",  # padded
        "AAECAwQFBgcICQoLDA0OD!",
        "AAECAwQFBgcICQoLDA0ODx",  # decodes like ...ODw, but Kafka never prints it
        "AAECAwQFBgcICQoLDA0ODw\n",
    ],
)
def test_only_the_text_kafka_prints_is_read(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kafka UUID"):
        TopicId.from_text(text)


def test_a_uuid_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        StorageUuid(b"abc")


def test_a_replica_is_named_by_broker_and_session() -> None:
    replica = ReplicaRef(BrokerId(3), Session(17))

    assert str(replica) == "3@17"
    assert ReplicaRef.from_text("3@17") == replica
    assert ReplicaRef.from_text("3@18") != replica


@given(st.integers(1, MAX_BROKER_ID), st.integers(1, MAX_SESSION))
def test_every_replica_reads_as_it_was_written(broker_id: int, session: int) -> None:
    replica = ReplicaRef(BrokerId(broker_id), Session(session))

    assert ReplicaRef.from_text(str(replica)) == replica
    assert len(str(replica)) <= ReplicaRef.MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    "text", ["", "3", "3@", "@1", "0@1", "1@0", "03@1", "1@2@3", "a@1", "1@1 "]
)
def test_a_replica_without_a_session_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a broker id"):
        ReplicaRef.from_text(text)


@pytest.mark.parametrize("text", ["32768@1", "1@1048576"])
def test_a_replica_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        ReplicaRef.from_text(text)
