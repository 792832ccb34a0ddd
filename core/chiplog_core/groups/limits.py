"""What the broker's configuration says of groups."""

from dataclasses import dataclass

from chiplog_core.ids import MAX_INT32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The `group.*` keys that decide about membership, with Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = MAX_INT32
    """group.max.size; members that were given an id and have yet to join with it count."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    new_member_join_timeout_ms: int = 300_000
    """How long somebody new may wait in JoinGroup. Whoever was given no id yet and gave up tries
    again as somebody else, and would pile up in a long rebalance; Kafka, too, has five minutes."""
    max_member_bytes: int = 2**20
    """Of what one member says of itself: ids, and its metadata for each protocol. As much as a
    record of `__consumer_offsets` has by default: more could not be stored."""
    max_group_bytes: int = 4 * 2**20
    """Of all members together: as many protocols as Kafka's consumers offer at once."""
    max_pending: int = 10_000
    """Ids that were given out and nobody has joined with."""
