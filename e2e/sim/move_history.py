"""What happened to replicas that moved: to whom they were given, and when data was deleted.

All of it is read from the API server's objects and the brokers' disks, without asking anybody.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class Deleted(NamedTuple):
    """A broker deleted the data of its replica of a partition."""

    at_s: float
    broker_id: int
    partition: str
    was_ordered: bool
    """Whether any map ever told this broker to delete this replica, or the topic."""
    is_replica: bool
    """Whether a map that is newer than the order has this broker among the replicas."""


class GivenToLeaving(NamedTuple):
    """A broker that is being removed got a new replica."""

    at_s: float
    broker_id: int
    partition: str
    leaving_s: float
    """For how long the Broker object had said that it is being removed."""


class Released(NamedTuple):
    """What a replica knew when the operator recorded that removed replicas are not needed."""

    at_s: float
    partition: str
    broker_id: int
    known_epoch: int
    """Leader epoch of the map that this replica's running broker had applied."""
    leader_epoch: int
    """Leader epoch of the partition."""


class LeaderToGo(NamedTuple):
    """A replica that is to be removed was elected, though others could lead for some time."""

    at_s: float
    partition: str
    leader: str
    able: tuple[str, ...]
    """Members of the ISR that stay and could lead."""


class Adopted(NamedTuple):
    """The replicas that the operator took over from reports after it had lost newer maps."""

    at_s: float
    partition: str
    target: tuple[int, ...]
    """The replicas that the partition will have."""
    known_target: tuple[int, ...]
    """The same by the newest map that a running replica had applied."""


class StillThere(NamedTuple):
    """A broker has data of a partition of which no map lists it as a replica."""

    at_s: float
    broker_id: int
    partition: str


class Unasked(NamedTuple):
    """A broker that may have data of a partition of which only lost maps told, and that had not
    compared its disk with the restored ones when the operator settled the partition without it."""

    at_s: float
    broker_id: int
    partition: str


@dataclass(slots=True)
class MoveHistory:
    """All that checkers of moves get, beside the decisions."""

    deletions: list[Deleted] = field(default_factory=list)
    given_to_leaving: list[GivenToLeaving] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)
    leaders_to_go: list[LeaderToGo] = field(default_factory=list)
    adopted: list[Adopted] = field(default_factory=list)
    forgotten: list[StillThere] = field(default_factory=list)
    """Data that was there when the operator removed its entry from the map's leftovers."""
    unasked: list[Unasked] = field(default_factory=list)
    leaked: list[StillThere] = field(default_factory=list)
    """Data that was there at the end of the run, on disks that never had a fault."""
