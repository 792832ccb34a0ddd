"""Counters of partitions, as plain integers."""

from collections.abc import Iterable


class PartitionCounters:
    """The traffic of a partition since the broker started."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "follower_bytes_out",
        "produces",
        "records_in",
        "sent_to_followers",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.follower_bytes_out = 0
        """The part of `bytes_out` that consumers read while this replica was a follower."""
        self.sent_to_followers = 0
        """Fetches answered with "read from this follower in your rack" (KIP-392)."""
        self.produces = 0
        """Batches that producers sent to this partition, refused ones and duplicates included."""
        self.failed_produces = 0
        self.fetches = 0
        """How often an answered fetch read this partition. A partition that a fetch session
        (KIP-227) skips because it has nothing new is not counted."""
        self.failed_fetches = 0

    def add(self, other: "PartitionCounters") -> None:
        """Add another partition's counters to these.

        There is no loop over the names, for speed: every metrics scrape does this for every
        replica.
        """
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.records_in += other.records_in
        self.follower_bytes_out += other.follower_bytes_out
        self.sent_to_followers += other.sent_to_followers
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches


class IsrChanges:
    """How often partitions led here lost and gained in-sync replicas since the broker started."""

    __slots__ = ("expands", "shrinks")

    def __init__(self) -> None:
        self.expands = 0
        self.shrinks = 0

    def count_change(self, before: Iterable[int] | None, after: Iterable[int]) -> None:
        """Count a shrink if brokers left the ISR, and an expand if brokers joined it.

        `before` and `after` are the broker ids in the ISRs of two successive PartitionMaps. With
        the first map of a partition `before` is None, and nothing is counted.
        """
        if before is not None:
            removed, added = set(before) - set(after), set(after) - set(before)
            self.shrinks += bool(removed)
            self.expands += bool(added)
