"""The follower's end of a fetch session (KIP-227): what its leader need not be told again.

Where both ends may differ in what they remember nothing is guessed: the next fetch asks for
everything, and ends the session that it names.
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
    """What a request has to say so that its leader knows all positions."""

    session_id: int
    session_epoch: int
    positions: Mapping[Key, FetchPosition]
    """Those that are new or have changed, in the order of asking."""
    forgotten: list[Key]


class LeaderSession:
    """What one leader was told, and in which session. One request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._said: Mapping[Key, FetchPosition] = {}

    def changes(self, positions: Mapping[Key, FetchPosition]) -> Changes:
        """What to send where these are all positions. Follow it by `answered` or `lost`."""
        if self._epoch == INITIAL_EPOCH:
            return Changes(self._id, INITIAL_EPOCH, positions, [])
        said = self._said
        return Changes(
            self._id,
            self._epoch,
            {key: one for key, one in positions.items() if said.get(key) != one},
            [key for key in said if key not in positions],
        )

    def answered(self, positions: Mapping[Key, FetchPosition], session_id: int) -> None:
        """The leader knows these positions now, unless it answers in no session."""
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch, self._said = INITIAL_EPOCH, {}
        else:
            self._epoch, self._said = next_epoch(self._epoch), positions

    def lost(self) -> None:
        """Who knows what the leader knows: begin anew, and end the old session by it."""
        self._epoch, self._said = INITIAL_EPOCH, {}

    def unknown(self) -> None:
        """The leader does not know the session."""
        self._id = NO_SESSION
        self.lost()
