"""The input of a Rebalance's next step, and the commands that users can give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.observed.pinned import Pinned
from chiplog_core.rebalance.approval import MoveBases
from chiplog_core.rebalance.measured import Broker
from chiplog_core.spark.brokers_measurement import Measurement
from chiplog_core.spark.following import RunView


class Command(StrEnum):
    """Values of the annotation `labels.REBALANCE`."""

    APPROVE = "approve"
    STOP = "stop"
    REFRESH = "refresh"


POSSIBLE: Mapping[Command, frozenset[RebalanceState]] = {
    Command.APPROVE: frozenset({RebalanceState.PROPOSAL_READY}),
    Command.STOP: frozenset({RebalanceState.PENDING_PROPOSAL, RebalanceState.REBALANCING}),
    Command.REFRESH: frozenset(RebalanceState)
    - {RebalanceState.NEW, RebalanceState.RECONCILIATION_PAUSED},
}
"""In which states each command is carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceView(RunView):
    """A Rebalance and all that decides about it, as it is at one moment."""

    rebalance: Rebalance
    topics: Sequence[str] = ()
    """The users' topics of the cluster."""
    brokers: tuple[Broker, ...] = ()
    sends_limits: bool = True
    """Whether a Spark job should know what brokers may hold."""
    pinned: Pinned = field(default_factory=dict)
    """The partitions that their Topics place by hand; they are not moved."""
    other_rebalance: str = ""
    """Another Rebalance of the cluster whose moves are in progress, as namespace/name; empty if
    there is none."""
    move_bases: MoveBases | None = None
    """The partitions as in the PartitionMaps; None if these could not be read, and then nothing is
    decided about moves."""
    measurement: Measurement | None = None
    """What the brokers reported of their load; None if they were not asked."""
