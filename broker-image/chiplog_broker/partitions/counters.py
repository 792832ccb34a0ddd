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
        """The part of those bytes that consumers read from this replica as a follower."""
        self.sent_to_followers = 0
        """Answers that sent a consumer to a follower in its rack."""
        self.produces = 0
        """Batches that producers asked it to take."""
        self.failed_produces = 0
        self.fetches = 0
        """How often it was looked at for a fetch that was answered. One that rests in a fetch
        session is not looked at."""
        self.failed_fetches = 0

    def add(self, more: "PartitionCounters") -> None:
        """Add another partition's counters. Written out because every scrape does it for every
        replica."""
        self.bytes_in += more.bytes_in
        self.bytes_out += more.bytes_out
        self.records_in += more.records_in
        self.follower_bytes_out += more.follower_bytes_out
        self.sent_to_followers += more.sent_to_followers
        self.produces += more.produces
        self.failed_produces += more.failed_produces
        self.fetches += more.fetches
        self.failed_fetches += more.failed_fetches


class IsrChanges:
    """How often partitions led here lost and gained in-sync replicas since the broker started."""

    __slots__ = ("expands", "shrinks")

    def __init__(self) -> None:
        self.expands = 0
        self.shrinks = 0

    def count_change(self, before: Iterable[int] | None, after: Iterable[int]) -> None:
        """Compare the in-sync replicas of two maps; `before` is None if this is the first map."""
        if before is not None:
            removed, added = set(before) - set(after), set(after) - set(before)
            self.shrinks += bool(removed)
            self.expands += bool(added)
