"""The follower's end of a fetch session (KIP-227): knows which positions the leader knows already.

If both ends may remember different positions, the next fetch is a full one, and closes the session
that it names.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from chiplog_broker.fetch_sessions.session import INITIAL_EPOCH, NO_SESSION, next_epoch
from chiplog_broker.partitions.follow_steps import FetchPosition
from chiplog_wire.protocol.errors import ErrorCode

Key: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

SESSION_ERRORS: Final = frozenset(
    {
        int(ErrorCode.fetch_session_id_not_found),
        int(ErrorCode.invalid_fetch_session_epoch),
        int(ErrorCode.fetch_session_topic_id_error),
    }
)


class Changes(NamedTuple):
    """The content of a request by which the leader knows all positions."""

    session_id: int
    session_epoch: int
    positions: Mapping[Key, FetchPosition]
    """New or changed positions, in the order of fetching."""
    forgotten: list[Key]


class LeaderSession:
    """The fetch session with one leader, and the positions sent in it. One request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._sent: Mapping[Key, FetchPosition] = {}

    def changes(self, positions: Mapping[Key, FetchPosition]) -> Changes:
        """What the next request must contain, in order that the leader knows all `positions` that
        are to be fetched now: new and changed ones, and partitions to forget. Call `answered` or
        `lost` after the request."""
        if self._epoch == INITIAL_EPOCH:
            return Changes(self._id, INITIAL_EPOCH, positions, [])
        sent = self._sent
        return Changes(
            self._id,
            self._epoch,
            {key: position for key, position in positions.items() if sent.get(key) != position},
            [key for key in sent if key not in positions],
        )

    def answered(self, positions: Mapping[Key, FetchPosition], session_id: int) -> None:
        """The leader has answered, and knows these positions now. `session_id` is from the answer;
        `NO_SESSION` means that the leader keeps no session."""
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch, self._sent = INITIAL_EPOCH, {}
        else:
            self._epoch, self._sent = next_epoch(self._epoch), positions

    def lost(self) -> None:
        """It is unknown what the leader knows: start with a full fetch that closes the old
        session."""
        self._epoch, self._sent = INITIAL_EPOCH, {}

    def unknown(self) -> None:
        """The leader does not know the session: start with a full fetch that closes none."""
        self._id = NO_SESSION
        self.lost()
