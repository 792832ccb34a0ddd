"""InitProducerId: unique producer ids, assigned without coordination between brokers.

A producer id consists of the broker's id (15 bits), its session (20 bits) and a counter (28 bits).
No two processes have the same broker id and session.
"""

from typing import Any

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.call import Call
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

SESSION_BITS = 20
COUNTER_BITS = 28


class ProducerIds:
    """Assigns producer ids. In each session of this broker the counter starts at 0."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._session = cluster.session
        self._next_count = 0

    def init_producer_id(self, call: Call[Any]) -> object:
        """Assign a new producer id with producer epoch 0."""
        types = answers(ApiKey.INIT_PRODUCER_ID)
        code, producer_id, epoch = self._assign(call.message)
        return types.InitProducerIdResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    def _assign(self, request: Any) -> tuple[ErrorCode, int, int]:
        """An error code, a producer id and its epoch; after an error both are -1."""
        if request.transactional_id is not None:
            # Fatal on purpose: transactions are not supported, and clients would retry for ever.
            return ErrorCode.transactional_id_authorization_failed, -1, -1
        if self._session != self._cluster.session:
            self._session, self._next_count = self._cluster.session, 0
        # Session 0: the broker is not admitted yet. With all ids of a session used, the client
        # retries, and another broker may answer.
        if self._session == 0 or self._next_count >> COUNTER_BITS:
            return ErrorCode.coordinator_load_in_progress, -1, -1
        # Without a transactional id Kafka assigns a new id, whatever id the request contains.
        prefix = self._cluster.broker_id << SESSION_BITS | self._session
        producer_id = prefix << COUNTER_BITS | self._next_count
        self._next_count += 1
        return ErrorCode.none, producer_id, 0
