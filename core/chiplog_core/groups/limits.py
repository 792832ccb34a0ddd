"""Limits for groups, from the broker's configuration."""

from dataclasses import dataclass

from chiplog_core.ids import MAX_INT32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The values of the `group.*` keys, with Kafka's defaults, and limits that are no keys."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = MAX_INT32
    """group.max.size. Ids that were given out, with which no client has joined yet, count, too."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait in its JoinGroup; five minutes as in Kafka. A client without a
    member id that stops waiting tries again as another new member, so without this limit the
    abandoned ones would accumulate in a long rebalance."""
    max_member_bytes: int = 2**20
    """Largest size of one member's ids and metadata for all its protocols. It is the default limit
    of a record in `__consumer_offsets`: more could not be stored."""
    max_group_bytes: int = 4 * 2**20
    """Largest total size of the ids and metadata of all members of a group. It is enough for as
    many protocols as Kafka's consumers offer."""
    max_pending: int = 10_000
    """How many ids may be given out with which no client has joined yet."""
