"""How many consumer groups a run has, and how their members behave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHabits:
    """The groups of a run; times are in seconds."""

    groups: int = 2
    members: int = 3
    """Members of each group at the beginning."""
    static_share: float = 0.4
    """Share of static members, with a `group.instance.id` (KIP-345)."""
    session_s: float = 8.0
    rebalance_s: float = 10.0
    heartbeat_s: float = 2.5
    commit_s: float = 3.0
    """Average time between two commits of a member."""
    watch_s: float = 4.0
    """Average time between two requests for a group's committed offsets by a client outside it."""
    slow_share: float = 0.01
    """Share of a member's rounds that take longer than its session, and end with a commit."""
    compare_s: float = 25.0
    """Average time between two comparisons of coordinators' memory with their logs."""
    is_reading: bool = True
    """Whether members commit the partitions' real high watermarks; else increasing numbers."""
    has_loner: bool = True
    """Whether there is also a consumer without a group membership, which only commits."""
    are_of_all_ages: bool = True
    """Whether members use random versions of each request."""
    retention_minutes: int = 0
    """How long offsets of a group without members are kept; 0 for the default."""
    topics: tuple[str, ...] = ("orders", "clicks")
