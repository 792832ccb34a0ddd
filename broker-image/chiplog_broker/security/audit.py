"""The audit log: a line for each denial, failed login, and change that a client made.

It has a logger of its own, `chiplog.audit`, so that it can be sent elsewhere. Kafka logs every
denial. Here a client that repeats a denied request does not fill the disk: the same denial is
logged once a minute, and all lines together are limited. What is left out is counted in the next
line (decision 70).
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from chiplog_core.authorizer.acls import Acl, Operation, ResourceType
from chiplog_core.authorizer.decision import Client

AUDIT_LOGGER: Final = "chiplog.audit"
logger = logging.getLogger(AUDIT_LOGGER)

K = TypeVar("K")

REPEAT_S: Final = 60.0
"""The same denial is logged again after this time."""
LINES_PER_S: Final = 20.0
BURST_LINES: Final = 200.0
"""Lines that may be logged at once; after that, `LINES_PER_S`. Denials, failed
logins and changes each have this limit, so that a denied client cannot hide the changes of
others."""
MAX_REMEMBERED: Final = 1_000
"""Denials that are remembered to recognize repetitions."""
LONGEST_NAME: Final = 256
"""Longer names are cut in the log; a request may have names of 32 KiB."""


class Denial(NamedTuple):
    """Who was denied what."""

    client: Client
    api: str
    operation: Operation
    resource_type: ResourceType
    name: str


class FailedLogin(NamedTuple):
    """Who failed to log in, and where."""

    host: str
    listener: str
    mechanism: str
    name: str
    """The name that the client gave; empty if it gave none."""


class AuditLog:
    """Writes the lines of this process."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._changes = Limit()
        self._denials = Repeated[Denial]()
        self._failed_logins = Repeated[FailedLogin]()

    def denied(self, denial: Denial, denied_by: Callable[[], Acl | None]) -> None:
        """Log a denial, unless it was logged a moment ago. `denied_by` returns the ACL that denies;
        it is called for a line only."""
        client = denial.client._replace(principal=denial.client.principal[:LONGEST_NAME])
        denial = denial._replace(client=client, name=denial.name[:LONGEST_NAME])
        counts = self._denials.spend(denial, self._monotonic_s())
        if counts is None:
            return
        facts: dict[str, Any] = {
            **who(denial.client),
            "api": denial.api,
            "operation": denial.operation.name,
            "resource": resource(denial.resource_type, denial.name),
            "acl": described(denied_by()),
            **counts,
        }
        logger.warning("denied", extra=facts)

    def login_failed(self, login: FailedLogin, reason: str) -> None:
        """Log a login that failed, unless the same one was logged a moment ago."""
        login = login._replace(name=login.name[:LONGEST_NAME])
        counts = self._failed_logins.spend(login, self._monotonic_s())
        if counts is not None:
            facts = {
                "host": login.host,
                "listener": login.listener,
                "mechanism": login.mechanism,
                "user": login.name,
                "reason": reason,
                **counts,
            }
            logger.warning("login_failed", extra=facts)

    def changed(self, client: Client, api: str, what: str, code: str) -> None:
        """Log a change of `what` that a client made, or that failed with an error code."""
        if not self._changes.spend(self._monotonic_s()):
            return
        facts = {**who(client), "api": api, "resource": what[: 2 * LONGEST_NAME], "result": code}
        self._changes.add_left_out(facts)
        logger.info("changed", extra=facts)


class Limit:
    """Limits lines per second, and counts those that were left out."""

    def __init__(self) -> None:
        self._available = BURST_LINES
        self._at_s = 0.0
        self._left_out = 0

    def spend(self, now_s: float) -> bool:
        """Whether a line may be logged now; it is counted."""
        self._available = min(BURST_LINES, self._available + (now_s - self._at_s) * LINES_PER_S)
        self._at_s = now_s
        if self._available < 1:
            self._left_out += 1
            return False
        self._available -= 1
        return True

    def add_left_out(self, facts: dict[str, Any]) -> None:
        """Add the number of lines that were left out before this one, if there are any."""
        if self._left_out:
            facts["left_out"] = self._left_out
            self._left_out = 0


class Repeated(Generic[K]):
    """Limits lines of one kind, and counts repetitions of the same one."""

    def __init__(self) -> None:
        self._limit = Limit()
        self._logged: dict[K, list[float]] = {}
        """What was logged -> when it was last, and how often it was repeated since."""

    def spend(self, what: K, now_s: float) -> dict[str, int] | None:
        """None if the line may not be logged now; else the numbers of lines that were left out."""
        known = self._logged.get(what)
        if known is not None and now_s - known[0] < REPEAT_S:
            known[1] += 1
            return None
        if not self._limit.spend(now_s):
            return None
        facts: dict[str, int] = {}
        if known is not None and known[1]:
            facts["repeated"] = int(known[1])
        self._limit.add_left_out(facts)
        self._logged.pop(what, None)
        if len(self._logged) >= MAX_REMEMBERED:
            del self._logged[next(iter(self._logged))]
        self._logged[what] = [now_s, 0]
        return facts


def who(client: Client) -> dict[str, str]:
    return {"principal": client.principal[:LONGEST_NAME], "host": client.host}


def resource(resource_type: ResourceType, name: str) -> str:
    """A resource as Kafka's audit log writes it, like `Topic:orders`."""
    return f"{resource_type.name.title().replace('_', '')}:{name}"


def described(acl: Acl | None) -> str | None:
    """An ACL in one text; None if there is none."""
    if acl is None:
        return None
    return (
        f"{acl.permission.name} {acl.principal} {acl.operation.name} from {acl.host} on "
        f"{resource(acl.resource_type, acl.name)} ({acl.pattern_type.name})"
    )
