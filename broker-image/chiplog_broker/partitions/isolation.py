"""Whether a leader is isolated: it reaches neither the API server nor another in-sync replica.

Then another broker may lead the partition in the meantime. It is not certain, but until a contact
returns, no record written here can be acknowledged with acks=all, and a record acknowledged with
acks=1 is lost if another broker does lead. So clients get an error that makes them look for the
leader elsewhere.
"""

from dataclasses import dataclass

NEVER_S = float("-inf")
SILENCE_S = 5.0
"""How long a leader accepts records without an answer from the API server or a follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastContact:
    """When one leader last had contact, in seconds of one monotonic clock."""

    waits_for_others: bool
    """Whether its high watermark waits for another broker: one in the ISR, or proposed for it."""
    followers_s: float
    """The newest fetch of any of these brokers; `NEVER_S` if none fetched in this leader epoch."""
    authority_s: float
    """The last answer of the authority that elects leaders (in Kubernetes the API server)."""
    led_since_s: float
    """When the leadership began, which proves a contact at that time."""
    running_since_s: float
    """Since when this process has run without a stall. During a stall it receives nothing, which
    does not mean that nobody sends."""


def is_isolated(last: LastContact, now_s: float, silence_s: float = SILENCE_S) -> bool:
    """Whether the leader had no contact for `silence_s` seconds, and must refuse records.

    False if its high watermark waits for no other broker: then the leader is the whole ISR, and no
    other broker can have been elected.
    """
    if not last.waits_for_others:
        return False
    last_s = max(last.followers_s, last.authority_s, last.led_since_s, last.running_since_s)
    return now_s - last_s >= silence_s


def silence_s(fetch_wait_max_s: float) -> float:
    """The time without contact after which a leader counts as isolated.

    A follower's fetch may wait for `fetch_wait_max_s` before the next one comes. So the limit is at
    least twice as long.
    """
    return max(SILENCE_S, 2 * fetch_wait_max_s)
