"""Asks a broker for the reassignments in progress, which librdkafka cannot."""

import socket
from collections.abc import Iterable, Mapping

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import TopicPartition
from chiplog_cli.librdkafka.connecting import CLIENT_ID, Connection
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
            return read_answer(_answer(place, connection.timeout_s))
        except Refused as refused:
            name = f"error {refused.code}"
            raise BrokerRefused(name, f"{WHAT}: {refused.message or name}") from refused
        except (OSError, ValueError) as error:
            why = error
    raise BrokerRefused(TIMED_OUT, f"{WHAT}: {why}") from why


def _answer(place: tuple[str, int], timeout_s: float) -> bytes:
    """A broker's answer, without its length. Raises `OSError` and `ValueError`."""
    with socket.create_connection(place, timeout_s) as connected:
        connected.sendall(list_request(CLIENT_ID, timeout_s))
        with connected.makefile("rb") as answers:
            size = int.from_bytes(answers.read(4), "big")
            if not 0 < size <= MAX_ANSWER_BYTES:
                raise ValueError(f"{place[0]}:{place[1]} does not answer as a broker does")
            return answers.read(size)
