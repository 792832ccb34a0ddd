"""What a broker allows strangers, from the memory and the open files that it may have itself.

A broker above its memory limit is killed, and one without descriptors can neither roll a segment
nor accept its followers. So what clients can make it hold is bounded by shares of both, and each
share is chosen so that all of them together, beside what the process takes at rest, stay below
the limit of the smallest pod that is worth running, 256 MiB.
"""

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

_CONNECTION_BYTES: Final = 256 * KIB
"""Memory of the process for each connection that it accepts. One at rest takes about 6 KiB and
one in the middle of a small request 22 KiB; the rest is for everything else."""
_FEWEST_CONNECTIONS: Final = 128
_SESSION_PARTITION_BYTES: Final = 350
_MOST_SESSION_PARTITIONS: Final = 400_000

_LEAST_RESERVE: Final = 64
_LARGEST_RESERVE: Final = 4096


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """In bytes, but for the counts."""

    clients_bytes: int
    """Requests of clients that are not whole yet, and answers that they have not taken."""
    brokers_bytes: int
    """The same of the internal listener, which clients cannot use up."""
    answer_bytes: int
    """Records in one answer. It is read at once, which the others have to wait for."""
    connections: int
    session_partitions: int
    """Of all fetch sessions together."""
    compaction_bytes: int
    """Keys of the log that is being compacted."""
    freed_bytes: int
    """What was freed and is kept to be used again."""


def memory_shares(memory_bytes: int) -> MemoryShares:
    """How a broker divides the memory that its process may use."""
    clients_bytes = _clamped(memory_bytes // 4, 8 * MIB, 1024 * MIB)
    return MemoryShares(
        clients_bytes=clients_bytes,
        brokers_bytes=_clamped(memory_bytes // 12, 16 * MIB, 256 * MIB),
        answer_bytes=clients_bytes // 16,
        connections=max(memory_bytes // _CONNECTION_BYTES, _FEWEST_CONNECTIONS),
        session_partitions=min(
            memory_bytes // 32 // _SESSION_PARTITION_BYTES, _MOST_SESSION_PARTITIONS
        ),
        compaction_bytes=max(memory_bytes // 8, 8 * MIB),
        freed_bytes=_clamped(memory_bytes // 16, 4 * MIB, 64 * MIB),
    )


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """Which descriptors are for whom. A descriptor is the lowest number that is free, so one that
    is not below a bound says that all below are in use."""

    clients_below: int
    """Connections of clients."""
    brokers_below: int
    """Connections of the internal listener."""
    files_below: int
    """Files that stay open; what is left is for those that are closed again at once."""


def descriptor_shares(limit: int) -> DescriptorShares:
    """How a broker divides the file descriptors that its process may open (RLIMIT_NOFILE)."""
    reserve = min(max(limit // 4, _LEAST_RESERVE), _LARGEST_RESERVE, limit // 2)
    return DescriptorShares(
        clients_below=limit - reserve,
        brokers_below=limit - reserve // 2,
        files_below=limit - reserve // 8,
    )


@dataclass(frozen=True, slots=True)
class ConnectionShares:
    """How many connections there may be where nobody has said it."""

    in_all: int
    of_one_address: int
    """Not all of them: a client with only one address must leave some to others."""


def connection_shares(memory: MemoryShares, clients_below: int) -> ConnectionShares:
    """The default limits of connections. Memory and descriptors bound them; a reserve of
    descriptors is left for files."""
    in_all = max(min(memory.connections, clients_below - _LEAST_RESERVE), 1)
    return ConnectionShares(in_all, max(in_all * 3 // 4, 1))


def _clamped(value: int, least: int, most: int) -> int:
    """The value, raised to `least` or lowered to `most` if it is outside of them."""
    return min(max(value, least), most)
