"""FindCoordinator: the broker that leads a group's partition of `__consumer_offsets`, or a
transactional id's partition of `__transaction_state`."""

from typing import Any

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.call import Call
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import NodeEndpoint

GROUP = 0
TRANSACTION = 1
NOWHERE = NodeEndpoint(-1, "", -1)


class CoordinatorFinder:
    """Finds coordinators by the leaders in the cluster view, so any broker can answer."""

    def __init__(
        self,
        cluster: ClusterView,
        groups: Coordinator,
        transactions: TransactionCoordinator,
        long_work: LongWork,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._transactions = transactions
        self._long_work = long_work

    async def find_coordinator(self, call: Call[Any]) -> object:
        types = answers(ApiKey.FIND_COORDINATOR)
        found, slices = [], self._long_work.slices()
        for key in call.message.coordinator_keys:
            await slices.pause()
            code, why, node = ErrorCode.none, None, NOWHERE
            try:
                node = self._find(key, call.message.key_type, call.peer.listener.name)
            except (GroupError, TransactionError) as refused:
                code, why = refused.code, str(refused)
            found.append(
                types.Coordinator(
                    key=key,
                    node_id=node.node_id,
                    host=node.host,
                    port=node.port,
                    error_code=code,
                    error_message=why,
                )
            )
        return types.FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))

    def _find(self, key: str, key_type: int, listener: str) -> NodeEndpoint:
        """The coordinator of a group or transactional id, and its address on this listener. Raises
        `GroupError` and `TransactionError`."""
        if key_type == GROUP:
            name, index = CONSUMER_OFFSETS, self._groups.partition_of(key)
        elif key_type == TRANSACTION:
            if not key:
                raise TransactionError(ErrorCode.invalid_request, "the transactional id is empty")
            name, index = TRANSACTION_STATE, self._transactions.partition_of(key)
        else:
            raise GroupError(
                ErrorCode.invalid_request,
                f"unknown key type {key_type}: use {GROUP} (group) or {TRANSACTION} (transaction)",
            )
        topic = self._cluster.topic(name)
        assert topic is not None, "`partition_of` raises if there is no such topic"
        leader_id = topic.advertised_leader(topic.partitions[index])
        node = next(
            (
                candidate
                for candidate in self._cluster.nodes(listener)
                if candidate.node_id == leader_id
            ),
            None,
        )
        if node is None:
            raise GroupError(
                ErrorCode.coordinator_not_available,
                f"partition {index} of {name}, which stores '{key}', has no leader that this "
                "listener can reach: try again",
            )
        return node
