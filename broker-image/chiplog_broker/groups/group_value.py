"""`GroupMetadataValue`, versions 0 to 4: a group's generation and members.

The schema is that of Apache Kafka 4.3.1. Like Kafka, we write version 3.
"""

from typing import Final

from chiplog_broker.groups.fields import FLEXIBLE_VERSION, read_value, storing
from chiplog_core.groups.stored import NO_TIMESTAMP_MS, StoredGroup, StoredMember
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, INT32, INT64, Reader
from chiplog_wire.protocol.writer import nullable_string, string

_WRITTEN_VERSION: Final = 3
_NO_TIMEOUT: Final = -1
"""In place of the rebalance timeout, which version 0 does not have."""


def encode_group_value(group: StoredGroup) -> bytes:
    """The generation and members as bytes. Raises `UnstorableGroupRecordError` if a text is longer
    than 32,767 bytes."""
    with storing("a group's metadata"):
        return b"".join(
            (
                INT16.pack(_WRITTEN_VERSION),
                string(group.protocol_type or ""),
                INT32.pack(group.generation),
                nullable_string(group.protocol),
                nullable_string(group.leader),
                INT64.pack(group.current_state_timestamp_ms),
                INT32.pack(len(group.members)),
                *map(_encode_member, group.members),
            )
        )


def _encode_member(member: StoredMember) -> bytes:
    return b"".join(
        (
            string(member.member_id),
            nullable_string(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            INT32.pack(len(member.subscription)),
            member.subscription,
            INT32.pack(len(member.assignment)),
            member.assignment,
        )
    )


def decode_group_value(value: bytes, group: str) -> StoredGroup:
    """The stored generation and members of this group. Raises `UnreadableGroupRecordError`."""
    return read_value(value, group, "GroupMetadataValue", _read_group)


def _read_group(reader: Reader, version: int) -> StoredGroup:
    """The group in the fields after the version. Fields that this version lacks get defaults."""
    protocol_type = reader.string() or None
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    current_state_timestamp_ms = NO_TIMESTAMP_MS
    if version >= 2:
        (current_state_timestamp_ms,) = reader.unpack(INT64)
    members = tuple([_read_member(reader, version) for _ in range(reader.count())])
    if version == FLEXIBLE_VERSION:
        reader.skip_tagged_fields()
    return StoredGroup(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp_ms=current_state_timestamp_ms,
        members=members,
    )


def _read_member(reader: Reader, version: int) -> StoredMember:
    """One member. Fields that this version lacks get defaults."""
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else _NO_TIMEOUT
    session_timeout_ms = reader.int32()
    member = StoredMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        # As in Kafka: the session timeout takes the place of a missing rebalance timeout.
        rebalance_timeout_ms=session_timeout_ms
        if rebalance_timeout_ms == _NO_TIMEOUT
        else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=_bytes(reader),
        assignment=_bytes(reader),
    )
    if version == FLEXIBLE_VERSION:
        reader.skip_tagged_fields()
    return member


def _bytes(reader: Reader) -> bytes:
    """The next bytes field. Raises `ProtocolViolation` if it is null."""
    view = reader.nullable_view()
    if view is None:
        raise ProtocolViolation("bytes are null where they must not be")
    return bytes(view)
