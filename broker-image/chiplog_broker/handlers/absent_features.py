"""Features that this cluster does not have, answered like an Apache Kafka without them.

Tools and UIs send these requests routinely: with an empty list they continue, without the API some
of them fail. Requests that would change such a feature are not offered.
"""

from collections import Counter
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


def describe_client_quotas(_: Call[Any]) -> object:
    """An empty list: there are no client quotas."""
    return answers(ApiKey.DESCRIBE_CLIENT_QUOTAS).DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, entries=()
    )


def describe_user_scram_credentials(call: Call[Any]) -> object:
    """Every requested user is unknown; without names in the request the list is empty.

    The brokers' own SCRAM credential is not shown to clients.
    """
    types = answers(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    times = Counter(user.name for user in call.message.users or ())
    return types.DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(no_credentials(types, name, count) for name, count in times.items()),
    )


def no_credentials(types: Any, user: str, times: int) -> object:
    """The error for one user; a user that is requested several `times` gets another one
    (KIP-554)."""
    code = ErrorCode.resource_not_found
    message = "Attempt to describe a user credential that does not exist"
    if times > 1:
        code = ErrorCode.duplicate_resource
        message = "the request contains this user more than once"
    return types.DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message=f"{message}: {user}", credential_infos=()
    )


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
