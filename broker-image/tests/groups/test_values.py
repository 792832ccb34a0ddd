"""Keys and values as bytes: against bytes put together by hand, and by Kafka's schemas.

The hand-made ones are, byte for byte, what the classes of Apache Kafka 4.3.1 write.
"""

import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.groups.errors import UnreadableGroupRecordError, UnstorableGroupRecordError
from chiplog_broker.groups.group_value import decode_group_value, encode_group_value
from chiplog_broker.groups.keys import (
    DONE_RESET,
    GROUP_RETENTION,
    GroupMetadataKey,
    GroupRetentionKey,
    OffsetCommitKey,
    decode_key,
    encode_key,
)
from chiplog_broker.groups.offset_value import (
    CommittedOffset,
    decode_offset_value,
    encode_offset_value,
)
from chiplog_broker.groups.retention_value import (
    decode_retention_value,
    encode_retention_value,
)
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup, StoredMember

VERSIONS = range(5)
FLEXIBLE = 4

# --- Kafka's schemas, as tables: name, type, first version, last version --------------------

OFFSET_COMMIT_VALUE = (
    ("offset", "int64", 0, 4),
    ("leader_epoch", "int32", 3, 4),
    ("metadata", "string", 0, 4),
    ("commit_timestamp_ms", "int64", 0, 4),
    ("expire_timestamp_ms", "int64", 1, 1),
)
MEMBER_METADATA = (
    ("member_id", "string", 0, 4),
    ("group_instance_id", "string", 3, 4),
    ("client_id", "string", 0, 4),
    ("client_host", "string", 0, 4),
    ("rebalance_timeout_ms", "int32", 1, 4),
    ("session_timeout_ms", "int32", 0, 4),
    ("subscription", "bytes", 0, 4),
    ("assignment", "bytes", 0, 4),
)
GROUP_METADATA_VALUE = (
    ("protocol_type", "string", 0, 4),
    ("generation", "int32", 0, 4),
    ("protocol", "string", 0, 4),
    ("leader", "string", 0, 4),
    ("current_state_timestamp_ms", "int64", 2, 4),
    ("members", "members", 0, 4),
)


def uvarint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def sized(raw: bytes | None, version: int, layout: str) -> bytes:
    if version >= FLEXIBLE:
        return b"\0" if raw is None else uvarint(len(raw) + 1) + raw
    return struct.pack(layout, -1) if raw is None else struct.pack(layout, len(raw)) + raw


def field_bytes(kind: str, value: Any, version: int) -> bytes:
    match kind:
        case "int32":
            return struct.pack(">i", value)
        case "int64":
            return struct.pack(">q", -1 if value is None else value)
        case "string":
            return sized(None if value is None else value.encode(), version, ">h")
        case "bytes":
            return sized(value, version, ">i")
        case _:
            count = len(value)
            head = uvarint(count + 1) if version >= FLEXIBLE else struct.pack(">i", count)
            tags = b"\0" if version >= FLEXIBLE else b""
            return head + b"".join(write(MEMBER_METADATA, m, version) + tags for m in value)


def write(schema: tuple[tuple[str, str, int, int], ...], value: Any, version: int) -> bytes:
    return b"".join(
        field_bytes(kind, getattr(value, name), version)
        for name, kind, first, last in schema
        if first <= version <= last
    )


def offset_value(commit: CommittedOffset, version: int, more_tags: bytes = b"") -> bytes:
    body = struct.pack(">h", version) + write(OFFSET_COMMIT_VALUE, commit, version)
    if version < FLEXIBLE:
        return body
    ours = b"" if commit.topic_id is None else b"\x00\x10" + commit.topic_id.bytes
    return body + bytes([bool(ours) + bool(more_tags)]) + ours + more_tags


def group_value(group: StoredGroup, version: int, tags: bytes = b"\0") -> bytes:
    group = replace(group, protocol_type=group.protocol_type or "")
    body = struct.pack(">h", version) + write(GROUP_METADATA_VALUE, group, version)
    return body + tags if version >= FLEXIBLE else body


# --- what may stand in them -----------------------------------------------------------------

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=150)
NAME = st.text(min_size=1, max_size=30)
COMMITS = st.builds(
    CommittedOffset,
    offset=INT64,
    leader_epoch=INT32,
    metadata=TEXT,
    commit_timestamp_ms=INT64,
    expire_timestamp_ms=st.none() | st.integers(0, 2**63 - 1),
    topic_id=st.none() | st.uuids(),
)
MEMBERS = st.builds(
    StoredMember,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=150),
    assignment=st.binary(max_size=150),
)
GROUPS = st.builds(
    StoredGroup,
    # What is stored as an empty text is read as None.
    protocol_type=TEXT.map(lambda text: text or None),
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    current_state_timestamp_ms=INT64,
    members=st.lists(MEMBERS, max_size=4).map(tuple),
)

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
WITH_ID = "01 00 10 0102030405060708090a0b0c0d0e0f10"
"""One tagged field: its tag, its length, the id."""
BEFORE_TAGS = "0004 0000000000000102 00000005 02 6d 0000000000000003"
COMMIT = CommittedOffset(offset=258, leader_epoch=5, metadata="m", commit_timestamp_ms=3)
MEMBER = StoredMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="h",
    rebalance_timeout_ms=6,
    session_timeout_ms=7,
    subscription=b"\x08",
    assignment=b"\x09\x0a",
)
GROUP = StoredGroup(
    protocol_type="consumer",
    generation=2,
    protocol="range",
    leader="m",
    current_state_timestamp_ms=11,
    members=(MEMBER,),
)


OURS = (0, 1, 2, DONE_RESET, GROUP_RETENTION)

# --- keys -----------------------------------------------------------------------------------


def test_keys_by_hand() -> None:
    commit = OffsetCommitKey("g", TopicPartition("t", 7))
    assert encode_key(commit) == bytes.fromhex("0001 0001 67 0001 74 00000007")
    assert decode_key(bytes.fromhex("0000 0001 67 0001 74 00000007")) == commit
    assert encode_key(GroupMetadataKey("g")) == bytes.fromhex("0002 0001 67")


@given(NAME, NAME, INT32)
def test_keys_come_back(group: str, topic: str, partition: int) -> None:
    commit = OffsetCommitKey(group, TopicPartition(topic, partition))
    for key in (commit, GroupMetadataKey(group), GroupRetentionKey(group)):
        assert decode_key(encode_key(key)) == key


def test_keys_of_two_kinds_are_never_equal() -> None:
    metadata: object = GroupMetadataKey("g")
    assert metadata != GroupRetentionKey("g")


@given(st.integers(-(2**15), 2**15 - 1).filter(lambda kind: kind not in OURS), st.binary())
def test_other_kinds_of_keys_are_not_parsed(kind: int, rest: bytes) -> None:
    assert decode_key(struct.pack(">h", kind) + rest) is None


@pytest.mark.parametrize(
    ("key", "group", "version"),
    [
        (None, None, None),
        (b"", None, None),
        (b"\x00", None, None),
        (bytes.fromhex("0001 0005 67"), None, 1),
        (bytes.fromhex("0001 0001 67 0001 74 000000"), "g", 1),
        (bytes.fromhex("0002 0001 67 00"), "g", 2),
        (bytes.fromhex("0002 ffff"), None, 2),
        (bytes.fromhex("0002 0001 ff"), None, 2),
    ],
)
def test_a_broken_key_is_named(key: bytes | None, group: str | None, version: int | None) -> None:
    with pytest.raises(UnreadableGroupRecordError) as caught:
        decode_key(key)
    assert (caught.value.group, caught.value.version) == (group, version)


def test_a_name_too_long_for_its_field() -> None:
    with pytest.raises(UnstorableGroupRecordError):
        encode_key(GroupMetadataKey("g" * 32_768))
    assert decode_key(encode_key(GroupMetadataKey("g" * 32_767))) == GroupMetadataKey("g" * 32_767)


# --- retentions -----------------------------------------------------------------------------


@given(st.integers(-1, 2**63 - 1))
def test_a_retention_comes_back(retention_ms: int) -> None:
    assert decode_retention_value(encode_retention_value(retention_ms), "g") == retention_ms


def test_a_retention_by_hand() -> None:
    assert encode_retention_value(-1) == bytes.fromhex("0000 ffffffffffffffff")
    assert encode_retention_value(1_000) == bytes.fromhex("0000 00000000000003e8")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytes.fromhex("0000 00000000000003"),
        bytes.fromhex("0000 00000000000003e8 00"),
        bytes.fromhex("0001 00000000000003e8"),
        bytes.fromhex("0000 fffffffffffffffe"),
    ],
)
def test_a_broken_retention_is_named(value: bytes) -> None:
    with pytest.raises(UnreadableGroupRecordError, match=r"a retention .* group 'g'"):
        decode_retention_value(value, "g")


# --- commits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hexadecimal", "commit"),
    [
        (
            "0000 0000000000000102 0001 6d 0000000000000003",
            replace(COMMIT, leader_epoch=-1),
        ),
        (
            "0001 0000000000000102 0001 6d 0000000000000003 0000000000000004",
            replace(COMMIT, leader_epoch=-1, expire_timestamp_ms=4),
        ),
        (
            "0001 0000000000000102 0001 6d 0000000000000003 ffffffffffffffff",
            replace(COMMIT, leader_epoch=-1),
        ),
        (
            "0002 0000000000000102 0001 6d 0000000000000003",
            replace(COMMIT, leader_epoch=-1),
        ),
        ("0003 0000000000000102 00000005 0001 6d 0000000000000003", COMMIT),
        ("0004 0000000000000102 00000005 02 6d 0000000000000003 00", COMMIT),
        (
            "0004 0000000000000102 00000005 02 6d 0000000000000003" + WITH_ID,
            replace(COMMIT, topic_id=TOPIC_ID),
        ),
        (
            "0004 0000000000000102 00000005 02 6d 0000000000000003 0100 10" + "00" * 16,
            COMMIT,
        ),
        (
            BEFORE_TAGS + "01 b1ea01 08 0000000000000004",
            replace(COMMIT, expire_timestamp_ms=4),
        ),
        (
            BEFORE_TAGS + "02 00 10 0102030405060708090a0b0c0d0e0f10 b1ea01 08 0000000000000004",
            replace(COMMIT, topic_id=TOPIC_ID, expire_timestamp_ms=4),
        ),
    ],
)
def test_commits_by_hand(hexadecimal: str, commit: CommittedOffset) -> None:
    raw = bytes.fromhex(hexadecimal)
    found = decode_offset_value(raw, "g", 42)
    assert found == commit
    assert found.record_offset == 42
    if raw[1] == FLEXIBLE and not raw.endswith(bytes(16)):
        assert encode_offset_value(commit) == raw


@pytest.mark.parametrize(
    "field",
    [
        "b1ea01 07 00000000000004",
        "b1ea01 09 000000000000000400",
        "00 0f 0102030405060708090a0b0c0d0e0f",
        "00 11 0102030405060708090a0b0c0d0e0f1011",
    ],
)
def test_a_tagged_field_of_another_size_is_damage(field: str) -> None:
    value = bytes.fromhex(BEFORE_TAGS + "01" + field)
    with pytest.raises(UnreadableGroupRecordError):
        decode_offset_value(value, "g", 0)


@given(COMMITS)
def test_commits_come_back(commit: CommittedOffset) -> None:
    found = decode_offset_value(encode_offset_value(commit), "g", 0)
    if commit.topic_id == UUID(int=0):
        commit = replace(commit, topic_id=None)
    assert found == commit


@pytest.mark.parametrize("version", VERSIONS)
@given(COMMITS)
def test_commits_of_every_version_are_read(version: int, commit: CommittedOffset) -> None:
    found = decode_offset_value(offset_value(commit, version), "g", 0)
    assert found == CommittedOffset(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch if version >= 3 else -1,
        metadata=commit.metadata,
        commit_timestamp_ms=commit.commit_timestamp_ms,
        expire_timestamp_ms=commit.expire_timestamp_ms if version == 1 else None,
        topic_id=commit.topic_id if version == 4 and commit.topic_id != UUID(int=0) else None,
    )


def test_a_commit_that_is_not_in_the_log_stands_nowhere() -> None:
    assert COMMIT.record_offset == -1


def test_tagged_fields_of_a_later_kafka_are_passed_over() -> None:
    commit = replace(COMMIT, topic_id=TOPIC_ID)
    assert decode_offset_value(offset_value(commit, 4, b"\x05\x03new"), "g", 0) == commit
    assert decode_group_value(group_value(GROUP, 4, b"\x01\x07\x02hi"), "g") == GROUP


# --- groups ---------------------------------------------------------------------------------

BY_HAND = {
    0: "0000 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d"
    "00000001 0001 6d 0001 63 0001 68 00000007 00000001 08 00000002 090a",
    1: "0001 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d"
    "00000001 0001 6d 0001 63 0001 68 00000006 00000007 00000001 08 00000002 090a",
    2: "0002 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 000000000000000b"
    "00000001 0001 6d 0001 63 0001 68 00000006 00000007 00000001 08 00000002 090a",
    3: "0003 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 000000000000000b"
    "00000001 0001 6d 0001 69 0001 63 0001 68 00000006 00000007 00000001 08 00000002 090a",
    4: "0004 09 636f6e73756d6572 00000002 06 72616e6765 02 6d 000000000000000b"
    "02 02 6d 02 69 02 63 02 68 00000006 00000007 02 08 03 090a 00 00",
}


def as_of(group: StoredGroup, version: int) -> StoredGroup:
    """What a version can say of it."""
    return replace(
        group,
        current_state_timestamp_ms=group.current_state_timestamp_ms if version >= 2 else -1,
        members=tuple(
            replace(
                member,
                group_instance_id=member.group_instance_id if version >= 3 else None,
                rebalance_timeout_ms=member.rebalance_timeout_ms
                if version >= 1
                else member.session_timeout_ms,
            )
            for member in group.members
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_by_hand(version: int) -> None:
    raw = bytes.fromhex(BY_HAND[version])
    assert decode_group_value(raw, "g") == as_of(GROUP, version)
    assert group_value(GROUP, version) == raw
    if version == 3:
        assert encode_group_value(GROUP) == raw


def test_an_empty_group_by_hand() -> None:
    empty = StoredGroup(
        protocol_type=None,
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=-1,
        members=(),
    )
    raw = bytes.fromhex("0003 0000 00000000 ffff ffff ffffffffffffffff 00000000")
    assert encode_group_value(empty) == raw
    assert decode_group_value(raw, "g") == empty


@given(GROUPS)
def test_groups_come_back(group: StoredGroup) -> None:
    assert decode_group_value(encode_group_value(group), "g") == group


@pytest.mark.parametrize("version", VERSIONS)
@given(GROUPS)
def test_groups_of_every_version_are_read(version: int, group: StoredGroup) -> None:
    assert decode_group_value(group_value(group, version), "g") == as_of(group, version)


def test_a_text_too_long_for_its_field() -> None:
    with pytest.raises(UnstorableGroupRecordError):
        encode_group_value(replace(GROUP, leader="m" * 32_768))


# --- bytes that are none of these -----------------------------------------------------------

WHOLE = [
    (decode_offset_value, offset_value(replace(COMMIT, topic_id=TOPIC_ID), 4)),
    (decode_offset_value, offset_value(COMMIT, 3)),
    *((decode_group_value, group_value(GROUP, version)) for version in VERSIONS),
]


def read(decode: Any, raw: bytes) -> object:
    return decode(raw, "my-group") if decode is decode_group_value else decode(raw, "my-group", 0)


@pytest.mark.parametrize(("decode", "raw"), WHOLE)
def test_a_cut_or_longer_value_names_its_group_and_version(decode: Any, raw: bytes) -> None:
    """And the schema that it does not keep to, by Kafka's name of it."""
    schema = "GroupMetadataValue" if decode is decode_group_value else "OffsetCommitValue"
    for length in range(len(raw)):
        with pytest.raises(UnreadableGroupRecordError, match=f"^{schema} .*'my-group'") as caught:
            read(decode, raw[:length])
        assert caught.value.group == "my-group"
        assert caught.value.version == (raw[1] if length >= 2 else None)
    with pytest.raises(UnreadableGroupRecordError):
        read(decode, raw + b"\0")


@pytest.mark.parametrize(("decode", "raw"), WHOLE)
@pytest.mark.parametrize("version", [-1, 5, 32_767])
def test_an_unknown_version_is_named(decode: Any, raw: bytes, version: int) -> None:
    with pytest.raises(UnreadableGroupRecordError, match=f"version {version}") as caught:
        read(decode, struct.pack(">h", version) + raw[2:])
    assert caught.value.version == version


@given(st.sampled_from([decode_offset_value, decode_group_value]), st.integers(0, 4), st.binary())
def test_any_bytes_end_in_a_value_or_the_typed_error(decode: Any, version: int, raw: bytes) -> None:
    with suppress(UnreadableGroupRecordError):
        assert isinstance(
            read(decode, struct.pack(">h", version) + raw), CommittedOffset | StoredGroup
        )


def test_fields_that_may_not_be_null() -> None:
    for text in (
        "0003 0000000000000102 00000005 ffff 0000000000000003",
        "0003 ffff 00000000 ffff ffff ffffffffffffffff 00000000",
        "0003 0000 00000000 ffff ffff ffffffffffffffff ffffffff",
    ):
        decode = decode_offset_value if "0102" in text else decode_group_value
        with pytest.raises(UnreadableGroupRecordError):
            read(decode, bytes.fromhex(text))
    raw = bytes.fromhex(BY_HAND[3])[:-6] + struct.pack(">i", -1)
    with pytest.raises(UnreadableGroupRecordError):
        read(decode_group_value, raw)
