"""Whether a leader is cut off from all that could tell it that another leads now.

A decision on facts, without a clock of its own. Silence is no proof that another leads; but
while it lasts no record that is written here can be acknowledged with acks=all, and a record
that acks=1 acknowledged would be lost where another does lead. So clients are better served by
an answer that makes them ask elsewhere.
"""

from dataclasses import dataclass

NEVER_S = float("-inf")
SILENCE_S = 5.0
"""How long a leader goes on that hears from nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What one leader last heard, and when: in seconds of one clock that only goes forward."""

    waits_for_others: bool
    """Whether its high watermark waits for any other broker: one that is listed, or proposed."""
    followers_s: float
    """The newest fetch of any of those; `NEVER_S` where none came in this reign."""
    authority_s: float
    """When who decides who leads answered last."""
    reign_s: float
    """When the reign began: whoever began it was heard."""
    listening_s: float
    """Since when this process has run without a stall: what it could not hear was no silence."""


def is_isolated(heard: Heard, now_s: float, silence_s: float = SILENCE_S) -> bool:
    """Whether nobody who counts was heard for so long. Who waits for nobody never is."""
    if not heard.waits_for_others:
        return False
    last_s = max(heard.followers_s, heard.authority_s, heard.reign_s, heard.listening_s)
    return now_s - last_s >= silence_s


def silence_s(fetch_wait_max_s: float) -> float:
    """How long is too long, where followers' fetches wait so long before the next one comes."""
    return max(SILENCE_S, 2 * fetch_wait_max_s)
