"""`KafkaTransactions`, over connections of our own: librdkafka has no such requests."""

from collections.abc import Iterable
from functools import cached_property

from confluent_kafka import KafkaError

from chiplog_cli import transaction_messages as messages
from chiplog_cli.broker_socket import CLIENT_ID, connected
from chiplog_cli.errors import BrokerRefused, CannotDo, NotLetIn
from chiplog_cli.facts import Broker, TopicPartition
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.failures import REMEDIES, TIMED_OUT, refused
from chiplog_cli.port import KafkaAdmin
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Producers,
    Transaction,
    TransactionFilter,
    TransactionListing,
)
from chiplog_core.transactions.states import TransactionState

MAX_ANSWER_BYTES = 64 * 1024 * 1024
NO_ERROR = 0
UNKNOWN_TO_LIBRDKAFKA = {
    105: ("TRANSACTIONAL_ID_NOT_FOUND", "it does not exist"),
    128: ("INVALID_REGULAR_EXPRESSION", "the pattern cannot be used"),
}
"""Kafka's names of these errors, and what they mean."""


class BrokerTransactions:
    """Implements `KafkaTransactions`. Each request has a connection of its own."""

    def __init__(self, connection: Connection, admin: KafkaAdmin) -> None:
        self._connection = connection
        self._admin = admin

    @cached_property
    def _brokers(self) -> dict[int, Broker]:
        return {broker.id: broker for broker in self._admin.describe_cluster().brokers}

    def list_all(self, wanted: TransactionFilter) -> list[TransactionListing]:
        """See `KafkaTransactions.list_all`."""
        found: list[TransactionListing] = []
        for broker_id in sorted(self._brokers):
            what = f"transactions of broker {broker_id}"
            request = messages.list_transactions(CLIENT_ID, wanted)
            listed = messages.listed_in(self._answer(broker_id, request, what), broker_id)
            _check(listed.code, what)
            if listed.unknown_states:
                raise CannotDo(
                    f"there is no state '{listed.unknown_states[0]}'",
                    f"the states are {', '.join(TransactionState)}",
                )
            found += listed.listings
        return sorted(found)

    def coordinator(self, transactional_id: str) -> int:
        """See `KafkaTransactions.coordinator`."""
        what = f"coordinator of '{transactional_id}'"
        request = messages.find_coordinator(CLIENT_ID, transactional_id)
        answer = self._answer(min(self._brokers), request, what)
        coordinator = messages.coordinator_in(answer)
        _check(coordinator.code, what)
        return coordinator.broker_id

    def describe(self, coordinator: int, transactional_ids: Iterable[str]) -> list[Transaction]:
        """See `KafkaTransactions.describe`."""
        request = messages.describe_transactions(CLIENT_ID, transactional_ids)
        answer = self._answer(coordinator, request, f"transactions of broker {coordinator}")
        found = messages.described_in(answer, coordinator)
        for code, transaction in found:
            _check(code, f"transactional id '{transaction.transactional_id}'")
        return [transaction for _, transaction in found]

    def producers(self, leader: int, places: Iterable[TopicPartition]) -> Producers:
        """See `KafkaTransactions.producers`."""
        wanted = list(places)
        request = messages.describe_producers(CLIENT_ID, wanted)
        answer = self._answer(leader, request, f"producers on broker {leader}")
        answered = messages.producers_in(answer)
        missing = messages.ProducersOf(KafkaError.UNKNOWN, ())
        return {
            at: found.producers if found.code == NO_ERROR else _refused(found.code, str(at))
            for at in wanted
            for found in (answered.get(at, missing),)
        }

    def abort(self, leader: int, at: TopicPartition, producer: ActiveProducer) -> None:
        """See `KafkaTransactions.abort`."""
        what = f"transaction of producer {producer.producer_id} in {at}"
        request = messages.write_abort_marker(CLIENT_ID, at, producer)
        _check(messages.marker_code_in(self._answer(leader, request, what)), what)

    def _answer(self, broker_id: int, request: bytes, what: str) -> bytes:
        """A broker's answer to a request, without its length. Raises `BrokerRefused`; `what` names
        the object that the request is about."""
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise BrokerRefused(TIMED_OUT, f"{what}: broker {broker_id} has ended")
        place, connection = (broker.host, broker.port), self._connection
        try:
            with connected(place, connection.security, connection.timeout_s) as socket:
                return socket.ask(request, MAX_ANSWER_BYTES)
        except NotLetIn as error:
            raise BrokerRefused(TIMED_OUT, f"{what}: {error.message}", error.remedy) from error
        except ConnectionResetError as error:
            remedy = REMEDIES["UNSUPPORTED_VERSION"]
            raise BrokerRefused(TIMED_OUT, f"{what}: {error}", remedy) from error
        except (OSError, ValueError) as error:
            raise BrokerRefused(TIMED_OUT, f"{what}: {error}", REMEDIES[TIMED_OUT]) from error


def _refused(code: int, what: str) -> BrokerRefused:
    """The error with this number. `what` names the object that it is about."""
    if code in UNKNOWN_TO_LIBRDKAFKA:
        name, message = UNKNOWN_TO_LIBRDKAFKA[code]
        return BrokerRefused(name, f"{what}: {message} ({name})", REMEDIES[name])
    return refused(KafkaError(code), what)


def _check(code: int, what: str) -> None:
    """Raises `BrokerRefused` for any code but 0."""
    if code != NO_ERROR:
        raise _refused(code, what)
