"""Which partition of `__consumer_offsets` a group belongs to, and which of `__transaction_state` a
transactional id.

It is Kafka's rule, which tools use, too: the absolute value of Java's `String.hashCode` of the id,
modulo the number of partitions. As in Kafka, the smallest integer, which has no
absolute value of 32 bits, counts as 0.
"""

import struct

_INT32_SIGN = 1 << 31


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, as a signed number of 32 bits."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", raw):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value & _INT32_SIGN else value


def partition_of(coordinated_id: str, partitions: int) -> int:
    """The partition whose leader coordinates the group or the transactional id."""
    value = java_hash(coordinated_id)
    # The lowest number has no positive counterpart in Java; Kafka takes 0 for it.
    return 0 if value == -_INT32_SIGN else abs(value) % partitions
