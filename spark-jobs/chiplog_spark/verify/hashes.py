"""The hashes by which clients choose the partition of a key.

murmur2: Java's client, kafka-python and aiokafka (`Utils.murmur2`, made positive by its lower 31
bits). crc32: librdkafka's default, `consistent_random`. fnv1a: sarama's `NewHashPartitioner`, which
computes the remainder of the signed hash first and then its absolute value, and librdkafka's
`fnv1a`, which gives the same result. Tests compare each with the real library.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from zlib import crc32

_BITS_32 = 0xFFFF_FFFF
_BITS_31 = 0x7FFF_FFFF
_MURMUR_SEED = 0x9747_B28C
_MURMUR_MIX = 0x5BD1_E995
_FNV_OFFSET = 0x811C_9DC5
_FNV_PRIME = 0x0100_0193


def murmur2(key: bytes) -> int:
    """MurmurHash 2 of 32 bits with Kafka's seed, unsigned."""
    whole = len(key) & ~3
    found = (_MURMUR_SEED ^ len(key)) & _BITS_32
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MURMUR_MIX & _BITS_32
        word = (word ^ word >> 24) * _MURMUR_MIX & _BITS_32
        found = (found * _MURMUR_MIX & _BITS_32) ^ word
    if whole < len(key):
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MURMUR_MIX & _BITS_32
    found = (found ^ found >> 13) * _MURMUR_MIX & _BITS_32
    return found ^ found >> 15


def fnv1a(key: bytes) -> int:
    """FNV-1a of 32 bits, unsigned."""
    found = _FNV_OFFSET
    for byte in key:
        found = (found ^ byte) * _FNV_PRIME & _BITS_32
    return found


def by_murmur2(key: bytes, partitions: int) -> int:
    return (murmur2(key) & _BITS_31) % partitions


def by_crc32(key: bytes, partitions: int) -> int:
    return crc32(key) % partitions


def by_fnv1a(key: bytes, partitions: int) -> int:
    """The partition of a key by the FNV-1a hash, like sarama's `NewHashPartitioner` in Go."""
    found = fnv1a(key)
    # In Go the remainder of a negative number is negative; its absolute value counts.
    return (found if found <= _BITS_31 else _BITS_32 + 1 - found) % partitions


PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], int]]] = MappingProxyType(
    {"murmur2": by_murmur2, "crc32": by_crc32, "fnv1a": by_fnv1a}
)
"""By the names in a Verification; functions of a key and the number of partitions."""

IGNORES_EMPTY_KEY: Final = frozenset({"crc32"})
"""librdkafka's `consistent_random` spreads records with an empty key as if they had none."""
