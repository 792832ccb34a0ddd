"""When a broker that refuses connections counts as dead.

The active operator keeps one connection to each admitted process. When a process ends, the kernel
closes that connection and the listening socket at once, about a second before the kubelet notices.
But a network may also refuse connections to a process that is alive. So refusals are accepted as
proof only if a mistake costs no more than a session: a broker that is fenced by mistake loses its
leaderships, as after an expired Lease, and is admitted again when it continues to renew its Lease
(`LivenessJudge.refused`).

Only the operator's own connection counts. If brokers could report each other as dead, one faulty
broker could remove the others.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates, find_broker_states
from chiplog_core.observed.processes import Identity, identity
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.elections import can_lead

ATTEMPTS = 2
"""After the open connection to a process has ended, so many new connections to it must have been
refused before it counts as ended."""

BETWEEN_MS = 5_000
"""How long after an accepted refusal no other one is accepted in the cluster: if several brokers
end together, the kubelet reports them."""


class Attempt(Enum):
    """The result of a new connection to a broker."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """ECONNREFUSED: the kernel was reached, and no process listens on the port."""
    SILENT = "silent"
    """A timeout, no route or a reset: this says nothing about the process."""


def is_refusal(attempts: Sequence[Attempt]) -> bool:
    """Whether these connections indicate an ended process: at least `ATTEMPTS`, and all refused."""
    return len(attempts) >= ATTEMPTS and all(attempt is Attempt.REFUSED for attempt in attempts)


def reason_to_doubt(process: Identity, world: World, believed_ms: int | None, now_ms: int) -> str:
    """Why refused connections are not accepted as proof that the process has ended; empty if they
    are.

    `believed_ms`: when a refusal in this cluster was last accepted, on the clock of `now_ms`; None
    if never. A refusal that is not accepted changes nothing: the kubelet's report and the Lease
    decide as always.
    """
    broker = world.brokers.get(process.broker_id)
    if broker is None or identity(broker, world.pods.get(process.broker_id)) != process:
        return "the process, pod or address of the broker has changed"
    if process.incarnation in world.ended:
        return "the process is known to have ended"
    if believed_ms is not None and now_ms - believed_ms < BETWEEN_MS:
        return f"another report was accepted in the last {BETWEEN_MS // 1000} s"
    return _doubt_about_partitions(process.broker_id, world)


def _doubt_about_partitions(broker_id: BrokerId, world: World) -> str:
    """Why it would be dangerous for the cluster's partitions to fence a live broker by mistake;
    empty if it would not."""
    if not world.is_complete or world.unreadable_maps:
        return "the operator does not know all partitions yet"
    brokers = find_broker_states(world, awaiting_admission(world))
    if brokers.unchecked_alive:
        return "another broker has not compared its disk with the partition maps yet"
    partition = next(_partitions_led_by_no_other(broker_id, world, brokers), None)
    return f"no other in-sync replica of {partition} is alive" if partition else ""


def _partitions_led_by_no_other(
    broker_id: BrokerId, world: World, brokers: BrokerStates
) -> Iterator[str]:
    """Partitions of this broker that no other broker could lead now, like "orders-3"."""
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
    """Whether the ISR lists the broker in any session: the next plan may replace an older session
    by the present one."""
    return any(ref.broker_id == broker_id for ref in state.isr)
