"""Features that this cluster does not have, answered like an Apache Kafka without them.

Tools and UIs send these requests routinely: with an empty list they continue, without the API some
of them fail. Requests that would change such a feature are not offered.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from chiplog_broker.server.call import Call
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

TRANSACTION_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
"""The names of Kafka's TransactionState."""
NO_PRODUCER = -1
NEVER = datetime.fromtimestamp(0, UTC)


def describe_transactions(call: Call[Any]) -> object:
    """An error for every transactional id: none exists."""
    return answers(ApiKey.DESCRIBE_TRANSACTIONS).DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(
            no_transaction(
                transactional_id,
                ErrorCode.transactional_id_not_found
                if transactional_id
                else ErrorCode.invalid_request,
            )
            for transactional_id in dict.fromkeys(call.message.transactional_ids)
        ),
    )


def no_transaction(transactional_id: str, code: ErrorCode) -> object:
    """The result of a DescribeTransactions for one transactional id, with an error."""
    return answers(ApiKey.DESCRIBE_TRANSACTIONS).TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=NEVER,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_PRODUCER,
        topics=(),
    )


def list_transactions(call: Call[Any]) -> object:
    """An empty list of transactions, with the states of the request's filter that Kafka does not
    have."""
    unknown = [state for state in call.message.state_filters if state not in TRANSACTION_STATES]
    return answers(ApiKey.LIST_TRANSACTIONS).ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(dict.fromkeys(unknown)),
        transaction_states=(),
    )
