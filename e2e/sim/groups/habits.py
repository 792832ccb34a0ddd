"""How many groups a run has, and how its members are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHabits:
    """Times are seconds."""

    groups: int = 2
    members: int = 3
    """Of each group, at the beginning."""
    static_share: float = 0.4
    """Of the members that have a `group.instance.id` (KIP-345)."""
    session_s: float = 8.0
    rebalance_s: float = 10.0
    heartbeat_s: float = 2.5
    commit_s: float = 3.0
    """A member commits about so often."""
    watch_s: float = 4.0
    """Somebody who is in no group asks so often how far one of them has come."""
    slow_share: float = 0.01
    """Of its rounds in which a member takes longer than its session lasts, and then commits."""
    compare_s: float = 25.0
    """Live state is compared with its replay so often."""
    is_reading: bool = True
    """Whether members ask how far their partitions go; else each commit is further by chance."""
    has_loner: bool = True
    """Whether there is a consumer, too, that assigns its partitions itself and only commits."""
    are_of_all_ages: bool = True
    """Whether members speak any version of each request."""
    retention_minutes: int = 0
    """What nobody came back for is kept so long; 0 for as long as it is without anybody's word."""
    topics: tuple[str, ...] = ("orders", "clicks")
