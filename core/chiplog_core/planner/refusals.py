"""When a broker that refuses connections counts as dead.

The active operator keeps one connection to each process that is admitted. A process that ends takes
that connection and its listening socket along at once, about a second before the kubelet notices.
But a network may say the same of a process that is alive, so a refusal is believed only where a
mistake costs no more than a session: what is fenced by mistake is elected away from, as after an
expired Lease, and admitted again when it continues to renew (`LivenessJudge.refused`).

Only the operator's own connection counts: if brokers could accuse each other, a bad one could
depose the others.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates, find_broker_states
from chiplog_core.observed.processes import Identity, identity
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import World
from chiplog_core.planner.elections import can_lead

ATTEMPTS = 2
"""This many new connections must be refused after the one that was kept has ended."""

BETWEEN_MS = 5_000
"""At most one refusal is believed in this long, per cluster: brokers that fall together are the
kubelet's to report."""


class Attempt(Enum):
    """What came of a new connection."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """ECONNREFUSED: a kernel that can be reached knows of nobody who listens."""
    SILENT = "silent"
    """A timeout, no route, a reset: that says something of the network, nothing of the process."""


def is_refusal(attempts: Sequence[Attempt]) -> bool:
    """Whether these attempts look like an ended process: enough of them, and all refused."""
    return len(attempts) >= ATTEMPTS and all(attempt is Attempt.REFUSED for attempt in attempts)


def doubt(whom: Identity, world: World, believed_ms: int | None, now_ms: int) -> str:
    """Why not to conclude from refused connections that the process has ended; empty to conclude
    it.

    `believed_ms`: when a refusal of a broker in this cluster was last believed, on the clock of
    `now_ms`. A refusal that is not believed changes nothing: the kubelet's report and the Lease
    decide as always.
    """
    broker = world.brokers.get(whom.broker_id)
    if broker is None or identity(broker, world.pods.get(whom.broker_id)) != whom:
        return "its process, pod or address has changed"
    if whom.incarnation in world.ended:
        return "it is known to have ended"
    if believed_ms is not None and now_ms - believed_ms < BETWEEN_MS:
        return f"another report was accepted in the last {BETWEEN_MS // 1000} s"
    return _doubt_about_partitions(whom.broker_id, world)


def _doubt_about_partitions(broker_id: BrokerId, world: World) -> str:
    """Why the cluster's partitions do not allow that conclusion; empty if they do."""
    if not world.is_complete or world.unreadable_maps:
        return "the operator does not know all partitions yet"
    brokers = find_broker_states(world, awaiting_admission(world))
    if brokers.awaited:
        return "a broker has not compared its disk with the partition maps yet"
    alone = next(_left_alone(broker_id, world, brokers), None)
    return f"no other in-sync replica of {alone} is alive" if alone else ""


def _left_alone(broker_id: BrokerId, world: World, brokers: BrokerStates) -> Iterator[str]:
    """Partitions that no other broker could lead."""
    for name, partition_map in world.maps.items():
        for generation in partition_map.spec.generations:
            if generation.trash_until:
                continue
            for state in generation.partitions:
                others = (ref for ref in state.isr if ref.broker_id != broker_id)
                if _is_in_sync(broker_id, state) and not any(
                    can_lead(ref, state, generation.topic_id, brokers) for ref in others
                ):
                    yield f"{name}-{state.partition}"


def _is_in_sync(broker_id: BrokerId, state: PartitionState) -> bool:
    """Whether the broker is in the ISR in any session: an older one may get the present session
    soon."""
    return any(ref.broker_id == broker_id for ref in state.isr)
