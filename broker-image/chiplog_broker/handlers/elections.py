"""ElectLeaders, forwarded to the metadata store if there is anything to elect (KIP-460).

What this broker's view shows as done or impossible is answered from it. If a request names no
partitions, those that need no election are left out of the answer, as in Kafka.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import NO_LEADER, ClusterView, PartitionView, TopicView
from chiplog_broker.server.call import Call
from chiplog_core.admin.operations import ElectLeaders
from chiplog_core.ids import TopicId
from chiplog_core.limits import MAX_ADMIN_RESULTS
from chiplog_wire.protocol.answers import NO_THROTTLE, answers, milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

PREFERRED: Final = 0
UNCLEAN: Final = 1

Outcomes = Mapping[int, Outcome]
"""Results by partition."""

PREFERRED_LEADS = Outcome(
    ErrorCode.election_not_needed, "the preferred leader is already the leader"
)
LEADER_IS_LIVE = Outcome(ErrorCode.election_not_needed, "the partition has a live leader")


class ElectionHandler:
    """Forwards elections of leaders, preferred or unclean, to the metadata store."""

    def __init__(self, cluster: ClusterView, store: MetadataStore) -> None:
        self._cluster = cluster
        self._store = store

    async def elect_leaders(self, call: Call[Any]) -> object:
        """Elect leaders; one result for each requested partition."""
        types = answers(ApiKey.ELECT_LEADERS)
        request = call.message
        if request.election_type not in {PREFERRED, UNCLEAN}:
            return elect_response(types, ErrorCode.invalid_request, {})
        wanted = requested_partitions(request.topic_partitions, self._cluster)

        async def elect(name: str, indexes: Iterable[int]) -> tuple[str, Outcomes]:
            return name, await self._elect(name, indexes, call)

        found = dict(await bounded_gather(elect(*item) for item in wanted.items()))
        if request.topic_partitions is None:
            found = {
                name: without_unneeded(known_outcomes) for name, known_outcomes in found.items()
            }
        return elect_response(types, ErrorCode.none, found)

    async def _elect(self, name: str, indexes: Iterable[int], call: Call[Any]) -> Outcomes:
        """Elect leaders of partitions of one topic, unless the result is known without it."""
        is_unclean = call.message.election_type == UNCLEAN
        view = self._cluster.topic(name)
        outcomes = {
            index: known_outcome(name, view, index, is_unclean=is_unclean) for index in indexes
        }
        undecided = [index for index, outcome in outcomes.items() if outcome is None]
        if view is not None:
            for start in range(0, len(undecided), MAX_ADMIN_RESULTS):
                part = undecided[start : start + MAX_ADMIN_RESULTS]
                outcomes |= await self._submit(view, part, call, is_unclean=is_unclean)
        return {index: outcome for index, outcome in outcomes.items() if outcome is not None}

    async def _submit(
        self, view: TopicView, indexes: list[int], call: Call[Any], *, is_unclean: bool
    ) -> Outcomes:
        """Submit an election; the leader epochs make sure that each partition is still as in
        `view`."""
        outcome = await self._store.submit(
            ElectLeaders(
                name=view.name,
                topic_id=TopicId(view.topic_id.bytes),
                partitions={index: view.partitions[index].leader_epoch for index in indexes},
                is_unclean=is_unclean,
                timeout_ms=milliseconds(call.message.timeout),
            ),
            call.peer.principal,
        )
        return {index: outcome.partitions.get(index, outcome) for index in indexes}


def requested_partitions(
    topics: Iterable[Any] | None, cluster: ClusterView
) -> dict[str, dict[int, None]]:
    """The requested partitions by topic, each once and in the order of the request.

    Without topics in the request these are all partitions of the cluster. The dicts are ordered
    sets.
    """
    if topics is None:
        return {topic.name: dict.fromkeys(range(len(topic.partitions))) for topic in cluster}
    wanted: dict[str, dict[int, None]] = {}
    for topic in topics:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return wanted


def known_outcome(
    name: str, view: TopicView | None, index: int, *, is_unclean: bool
) -> Outcome | None:
    """The result if this broker's view shows it, so that the operator need not be asked; else
    None."""
    if view is None or not 0 <= index < len(view.partitions):
        what = f"no topic '{name}'" if view is None else f"no partition {index} of '{name}'"
        return Outcome(ErrorCode.unknown_topic_or_partition, f"there is {what}")
    partition = view.partitions[index]
    if is_unclean:
        return LEADER_IS_LIVE if partition.leader_id != NO_LEADER else None
    return PREFERRED_LEADS if is_led_by_preferred(partition) else None


def is_led_by_preferred(partition: PartitionView) -> bool:
    return partition.leader_id == partition.replicas[0]


def without_unneeded(outcomes: Outcomes) -> Outcomes:
    """The results without those of partitions that needed no election."""
    return {
        index: outcome
        for index, outcome in outcomes.items()
        if outcome.code is not ErrorCode.election_not_needed
    }


def elect_response(types: Any, code: ErrorCode, found: Mapping[str, Outcomes]) -> object:
    """The answer; version 0 of ElectLeaders has only the error codes of partitions, not `code`."""
    return types.ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        replica_election_results=tuple(
            types.ReplicaElectionResult(
                topic=name,
                partition_result=tuple(
                    types.PartitionResult(
                        partition_id=index, error_code=outcome.code, error_message=outcome.message
                    )
                    for index, outcome in outcomes.items()
                ),
            )
            for name, outcomes in found.items()
        ),
    )
