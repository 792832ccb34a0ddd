"""How much of a broker's memory and file descriptors its clients may use.

A broker above its memory limit is killed, and one without free descriptors can neither roll a
segment nor accept connections of followers. So the memory and descriptors that clients can use are
limited to shares. The shares are chosen so that a pod with 256 MiB, the smallest that is useful,
stays below its limit even if all shares are used.
"""

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

_CONNECTION_BYTES: Final = 256 * KIB
"""Memory of the process per connection that it accepts. An idle connection takes about 6 KiB, and
one with a small unfinished request 22 KiB; the rest is for everything else."""
_TLS_CONNECTIONS_EACH: Final = 2
"""A connection with TLS counts as so many: its transport keeps a buffer of 256 KiB for what it
receives (uvloop's `SSL_READ_MAX_SIZE`), which stays in memory once it was used."""
_FEWEST_CONNECTIONS: Final = 128
_SESSION_PARTITION_BYTES: Final = 350
"""Memory of a partition in a fetch session."""
_MOST_SESSION_PARTITIONS: Final = 400_000

_LEAST_RESERVE: Final = 64
_LARGEST_RESERVE: Final = 4096


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """How a broker divides its memory."""

    clients_bytes: int
    """Memory for requests of clients that are not received completely, and answers that clients
    have not read yet."""
    brokers_bytes: int
    """Memory for unfinished requests and unread answers on the internal listener, so that clients
    cannot use up what brokers need for each other."""
    answer_bytes: int
    """Memory for the records in one answer. They are read from disk in one step, in which no other
    request is served."""
    connections: int
    """Number of connections."""
    session_partitions: int
    """Number of partitions in all fetch sessions together."""
    compaction_bytes: int
    """Memory for the keys of the log that is being compacted."""
    freed_bytes: int
    """Freed memory that is kept to be used again."""


def memory_shares(memory_bytes: int) -> MemoryShares:
    """How a broker divides the memory that its process may use.

    The fractions, with their lower and upper limits, were chosen so that a process with 256 MiB
    stays below its limit even if all shares are used; see the module's docstring.
    """
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
    """How a broker divides its file descriptors, as bounds for their numbers. The operating system
    always gives out the lowest free number, so a number at or above a bound shows that all below
    are in use."""

    clients_below: int
    """No connection of a client is accepted if its descriptor's number is at or above this."""
    brokers_below: int
    """No connection of the internal listener is accepted at or above this number."""
    files_below: int
    """No file that stays open is opened at or above this number. The numbers above are for files
    that are closed again immediately."""


def descriptor_shares(limit: int) -> DescriptorShares:
    """How a broker divides the file descriptors that its process may open (RLIMIT_NOFILE).

    A quarter, within limits, is reserved: clients are refused first, other brokers when half of the
    reserve is used, and files that stay open when seven eighths are used.
    """
    reserve = min(max(limit // 4, _LEAST_RESERVE), _LARGEST_RESERVE, limit // 2)
    return DescriptorShares(
        clients_below=limit - reserve,
        brokers_below=limit - reserve // 2,
        files_below=limit - reserve // 8,
    )


@dataclass(frozen=True, slots=True)
class ConnectionShares:
    """The default limits for connections, if the configuration does not set them."""

    in_all: int
    of_one_address: int
    """Less than all, so that one client address cannot use up all connections."""


def connection_shares(
    memory: MemoryShares, clients_below: int, *, have_tls: bool = False
) -> ConnectionShares:
    """The default limits of connections: as many as memory and descriptors allow, in total, and
    three quarters of that for one client address. `clients_below` is the first descriptor number
    that clients do not get; some numbers below it are left for files. `have_tls`: all of them may
    use TLS."""
    connections = memory.connections // _TLS_CONNECTIONS_EACH if have_tls else memory.connections
    in_all = max(min(connections, clients_below - _LEAST_RESERVE), 1)
    return ConnectionShares(in_all, max(in_all * 3 // 4, 1))


def _clamped(value: int, least: int, most: int) -> int:
    """The value, raised to `least` or lowered to `most` if it is outside of them."""
    return min(max(value, least), most)
