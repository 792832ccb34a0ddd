"""Whether a leader is isolated: it reaches nobody who could know that another broker leads now.

A pure decision on facts. Silence does not prove that another broker leads. But while it lasts, no
record written here can be acknowledged with acks=all, and a record acknowledged with acks=1 is
lost if another broker does lead. So clients get an error that makes them look for the leader
elsewhere.
"""

from dataclasses import dataclass

NEVER_S = float("-inf")
SILENCE_S = 5.0
"""How long a leader serves without an answer from the API server or a follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastContact:
    """When one leader last had contact, in seconds of one monotonic clock."""

    waits_for_others: bool
    """Whether its high watermark waits for another broker: one in the ISR, or proposed for it."""
    followers_s: float
    """The newest fetch of any of those; `NEVER_S` if none came in this leader epoch."""
    authority_s: float
    """The last answer of the authority that elects leaders."""
    led_since_s: float
    """When the leadership began, which is a contact, too."""
    running_since_s: float
    """The time since which this process has run without a stall: during a stall it cannot receive
    anything."""


def is_isolated(last: LastContact, now_s: float, silence_s: float = SILENCE_S) -> bool:
    """Whether there was no contact for `silence_s`; never if the leader waits for nobody."""
    if not last.waits_for_others:
        return False
    last_s = max(last.followers_s, last.authority_s, last.led_since_s, last.running_since_s)
    return now_s - last_s >= silence_s


def silence_s(fetch_wait_max_s: float) -> float:
    """The limit where a follower's fetch may wait `fetch_wait_max_s` before the next one comes."""
    return max(SILENCE_S, 2 * fetch_wait_max_s)
