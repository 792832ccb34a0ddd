"""Murmur2, the hash by which Java clients choose the partition of a key.

The tested clients have their own implementations, which are compared with this one.
"""

M = 0x5BD1E995
SEED = 0x9747B28C
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash 2 of 32 bits with the seed that Kafka uses, as an unsigned number."""
    h = (SEED ^ len(data)) & MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * M) & MASK
        k = ((k ^ (k >> 24)) * M) & MASK
        h = ((h * M) & MASK) ^ k
    if rest := data[whole:]:
        h = ((h ^ int.from_bytes(rest, "little")) * M) & MASK
    h = ((h ^ (h >> 13)) * M) & MASK
    return h ^ (h >> 15)
