"""InitProducerId: producer ids, and the producers of transactional ids.

An idempotent producer gets a new id from any broker. A transactional one gets an id and an epoch
from the coordinator of its transactional id, and the producer before is fenced.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from chiplog_broker.server.call import Answer as EncodedAnswer
from chiplog_broker.server.call import Call
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transaction_coordinator.shard import TransactionShard
from chiplog_core.transactions.answers import Answer
from chiplog_core.transactions.producer import NO_PRODUCER, Producer
from chiplog_core.transactions.requests import Init
from chiplog_wire.protocol.answers import NO_THROTTLE, answers, milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

Waiting: TypeAlias = asyncio.Future[EncodedAnswer]

FENCED_FROM_VERSION = 4
"""From here on a client knows PRODUCER_FENCED (KIP-588)."""


class ProducerHandler:
    """Answers InitProducerId."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def init_producer_id(self, call: Call[Any]) -> Waiting | object:
        """Draw a new producer id with epoch 0, or pass the request to the shard."""
        request = call.message
        if request.transactional_id is None:
            # Kafka draws a new id, too, whatever id the request contains.
            producer_id = self._coordinator.producer_ids.draw()
            if producer_id is None:
                # The client retries, and another broker may answer.
                return init_response(ErrorCode.coordinator_load_in_progress)
            return init_response(ErrorCode.none, Producer(producer_id, 0))
        producer = Producer(request.producer_id, request.producer_epoch)
        is_half_given = (producer.producer_id < 0) != (producer.epoch < 0)
        if not request.transactional_id or is_half_given:
            return init_response(ErrorCode.invalid_request)
        init = Init(
            transaction_timeout_ms=milliseconds(request.transaction_timeout),
            producer=None if producer.producer_id < 0 else producer,
        )
        return submit(
            self._coordinator,
            call,
            lambda shard, respond: shard.init(request.transactional_id, init, respond),
            init_response,
            FENCED_FROM_VERSION,
        )


def submit(
    coordinator: TransactionCoordinator,
    call: Call[Any],
    start: Callable[[TransactionShard, Callable[[Answer], None]], None],
    to_response: Callable[[ErrorCode, Producer], object],
    fenced_from: int,
) -> Waiting | object:
    """Pass a request to the shard of its transactional id with `start`.

    Returns a future of the encoded answer, or at once the response with an error if this broker
    does not coordinate the transactional id. `fenced_from` as for `known_code`.
    """
    try:
        shard = coordinator.shard(call.message.transactional_id)
    except TransactionError as problem:
        return to_response(problem.code, NO_PRODUCER)
    waiting: Waiting = asyncio.get_running_loop().create_future()

    def respond(answer: Answer) -> None:
        code = known_code(ErrorCode(answer.code), call.header.version, fenced_from)
        call.answer(waiting, lambda: to_response(code, answer.producer))

    start(shard, respond)
    return waiting


def init_response(code: ErrorCode, producer: Producer = NO_PRODUCER) -> object:
    """The answer: with an error there is no producer."""
    given = producer if code is ErrorCode.none else NO_PRODUCER
    return answers(ApiKey.INIT_PRODUCER_ID).InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=given.producer_id,
        producer_epoch=given.epoch,
    )


def known_code(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """The code that the client's version has: below `fenced_from`, INVALID_PRODUCER_EPOCH stands
    for PRODUCER_FENCED. Both are fatal for a producer."""
    if code is ErrorCode.producer_fenced and version < fenced_from:
        return ErrorCode.invalid_producer_epoch
    return code
