"""How many users a run has, and how their clients behave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserHabits:
    """The users of a run; times are in seconds."""

    with_passwords: int = 2
    with_certificates: int = 2
    pause_s: float = 1.0
    """The longest pause of a client between two requests to one broker."""
    reauth_s: float = 0.0
    """After this time a login has to be renewed (`connections.max.reauth.ms`); 0: never."""
    careless_share: float = 0.3
    """Share of connections whose client does not renew its login."""
    stale_share: float = 0.3
    """Share of logins with an earlier password or certificate, if the user had one."""
    reconnect_share: float = 0.1
    """Share of requests before which a client connects again, and logs in again."""
    proves: bool = True
    """Whether users are changed once more when all faults are over, and brokers must follow within
    the promised time."""
