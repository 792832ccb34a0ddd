"""Asks a broker for the reassignments in progress, which librdkafka cannot."""

from collections.abc import Iterable, Mapping

from chiplog_cli.broker_socket import CLIENT_ID, connected
from chiplog_cli.errors import BrokerRefused, NotLetIn
from chiplog_cli.facts import TopicPartition
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.failures import TIMED_OUT
from chiplog_cli.reassignments import (
    MAX_ANSWER_BYTES,
    Reassignment,
    Refused,
    list_request,
    read_answer,
)
from chiplog_cli.target import addresses

WHAT = "reassignments in progress"


def reassignments(
    connection: Connection, others: Iterable[tuple[str, int]] = ()
) -> Mapping[TopicPartition, Reassignment]:
    """All reassignments in progress, from the first broker that answers: one of those with which
    the connection began, or one of the `others` that clients have learned of since. Raises
    `BrokerRefused`."""
    why: Exception = OSError("no address")
    for place in dict.fromkeys((*addresses(connection.bootstrap_servers), *others)):
        try:
            return read_answer(_answer(place, connection))
        except Refused as refused:
            name = f"error {refused.code}"
            raise BrokerRefused(name, f"{WHAT}: {refused.message or name}") from refused
        except (NotLetIn, OSError, ValueError) as error:
            why = error
    raise BrokerRefused(TIMED_OUT, f"{WHAT}: {why}") from why


def _answer(place: tuple[str, int], connection: Connection) -> bytes:
    """A broker's answer, without its length. Raises `OSError`, `NotLetIn` and `ValueError`."""
    timeout_s = connection.timeout_s
    with connected(place, connection.security, timeout_s) as broker:
        return broker.ask(list_request(CLIENT_ID, timeout_s), MAX_ANSWER_BYTES)
