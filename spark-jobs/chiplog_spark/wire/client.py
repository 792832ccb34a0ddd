"""Sends requests to a cluster, and retries them where that may help.

`verdicts` decides what an error code means; this module has the connections, and retries requests
until a timeout.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from chiplog_spark.wire import errors
from chiplog_spark.wire.access import Access, Address
from chiplog_spark.wire.connection import Connection
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import Fetched, Isolation, PartitionFacts, Place, TopicFacts
from chiplog_spark.wire.verdicts import LEADER, Verdict, judged
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import replica_fetch, schema
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)

ORDINARY_CONSUMER_ID: Final = -1
DEBUGGING_CONSUMER_ID: Final = -2
"""Kafka's replica id for reading exactly the replica of the requested broker."""
_TOPIC_RESOURCE: Final = 2
"""Kafka's resource type of a topic."""
FETCH_BYTES: Final = 4 * 2**20
"""The maximum size of one answer, unless a single batch is larger."""
FETCH_WAIT_MS: Final = 500
# A topic that was created a moment ago is not known to every broker yet.
_UNKNOWN_TOPIC_PATIENCE_S: Final = 3.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0

Found = TypeVar("Found")


class _Retry(Exception):  # noqa: N818 - not an error yet
    """One attempt of a request failed, and another may succeed.

    `final` is the error to raise when the time for retries has ended.
    """

    def __init__(self, final: WireError) -> None:
        super().__init__(str(final))
        self.final = final


class EpochEnd(NamedTuple):
    """The end offset of a leader epoch; both are -1 if the leader does not know it."""

    leader_epoch: int
    end_offset: int


class Client:
    """Connections to a cluster, one for each broker, for one thread. All methods raise
    `WireError`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connections: dict[Address, Connection] = {}
        self._topics: dict[str, TopicFacts] = {}
        self._brokers: dict[int, Address] = {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def topic(self, name: str) -> TopicFacts:
        """Request the id, partitions, leaders and brokers of a topic."""
        return self._retry(lambda: self._request_topic(name))

    def offsets(
        self,
        topic: TopicFacts,
        wanted: Mapping[int, int],
        replica: int = LEADER,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        """The offset of each partition for `EARLIEST`, `LATEST`, or a time in milliseconds.

        `LATEST` is the high watermark, and the last stable offset with `READ_COMMITTED`. -1 means
        that no record is as new as the requested time. For a single replica these are the offsets
        that it knows.
        """

        def offset(partition: int) -> int:
            position = wanted[partition]
            return self._retry(
                lambda: self._request_offset(topic.name, partition, position, replica, isolation)
            )

        return {index: offset(index) for index in wanted}

    def epoch_end(self, topic: TopicFacts, partition: int, leader_epoch: int) -> EpochEnd:
        """The end offset of this epoch, or of the largest one below it, in the leader's log
        (KIP-320)."""
        return self._retry(lambda: self._request_epoch_end(topic.name, partition, leader_epoch))

    def config(self, topic: str) -> dict[str, str]:
        """The effective configuration of a topic, under Kafka's names; lists are separated by
        commas."""
        return self._retry(lambda: self._request_config(topic))

    def fetch(
        self,
        at: Place,
        offset: int,
        max_bytes: int = FETCH_BYTES,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Fetched:
        """Batches from the one that contains `offset` on; waits a moment if there are none yet.

        The first one may begin before `offset`, because batches are never divided.
        """
        return self._retry(lambda: self._request_fetch(at, offset, max_bytes, isolation))

    # -- one attempt of each request; raises `_Retry` if another one may succeed

    def _request_topic(self, name: str) -> TopicFacts:
        """One attempt of `topic` (Metadata); remembers the leaders and the addresses of brokers."""
        connection = self._any_connection()
        version = connection.version(ApiKey.METADATA)
        layout = schema.request_class(ApiKey.METADATA, version)
        topic = schema.element(layout, "topics")
        values = schema.defaults(layout) | {
            "topics": (topic(topic_id=None, name=name),),
            "allow_auto_topic_creation": False,
        }
        answer = self._send_request(connection, ApiKey.METADATA, version, layout(**values), name)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found = self._single_entry(answer.topics, connection, name)
        self._check(found.error_code, name, errors.NO_PARTITION, LEADER)
        partitions = {
            partition.partition_index: PartitionFacts(
                partition.leader_id,
                partition.leader_epoch,
                partition.replica_nodes,
                partition.isr_nodes,
            )
            for partition in found.partitions
        }
        facts = TopicFacts(name, found.topic_id, partitions, self._brokers)
        self._topics[name] = facts
        return facts

    def _request_config(self, topic: str) -> dict[str, str]:
        """One attempt of `config` (DescribeConfigs)."""
        connection = self._any_connection()
        version = connection.version(ApiKey.DESCRIBE_CONFIGS)
        layout = schema.request_class(ApiKey.DESCRIBE_CONFIGS, version)
        resource = schema.element(layout, "resources")(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
        )
        values = schema.defaults(layout) | {"resources": (resource,)}
        answer = self._send_request(
            connection, ApiKey.DESCRIBE_CONFIGS, version, layout(**values), topic
        )
        found = self._single_entry(answer.results, connection, topic)
        self._check(found.error_code, topic, errors.NO_PARTITION, LEADER)
        return {config.name: config.value for config in found.configs if config.value is not None}

    def _request_offset(
        self, topic: str, partition: int, position: int, replica: int, isolation: Isolation
    ) -> int:
        """One attempt of `offsets` (ListOffsets), for one partition."""
        connection = self._broker_connection(topic, partition, replica)
        version = connection.version(ApiKey.LIST_OFFSETS)
        layout = schema.request_class(ApiKey.LIST_OFFSETS, version)
        topics = schema.element(layout, "topics")
        wanted = schema.element(topics, "partitions")(
            partition_index=partition, current_leader_epoch=-1, timestamp=position
        )
        request = layout(
            replica_id=consumer_id(replica),
            isolation_level=isolation,
            topics=(topics(name=topic, partitions=(wanted,)),),
        )
        answer = self._send_request(
            connection, ApiKey.LIST_OFFSETS, version, request, topic, partition
        )
        found = self._partition_entry(answer.topics, connection, topic, partition)
        self._check(found.error_code, topic, partition, replica)
        return int(found.offset)

    def _request_epoch_end(self, topic: str, partition: int, leader_epoch: int) -> EpochEnd:
        """One attempt of `epoch_end` (OffsetForLeaderEpoch)."""
        connection = self._broker_connection(topic, partition, LEADER)
        version = connection.version(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        layout = schema.request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, version)
        topics = schema.element(layout, "topics")
        wanted = schema.element(topics, "partitions")(
            partition=partition, current_leader_epoch=-1, leader_epoch=leader_epoch
        )
        request = layout(
            replica_id=ORDINARY_CONSUMER_ID, topics=(topics(topic=topic, partitions=(wanted,)),)
        )
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH
        answer = self._send_request(connection, key, version, request, topic, partition)
        found = self._partition_entry(answer.topics, connection, topic, partition)
        self._check(found.error_code, topic, partition, LEADER)
        return EpochEnd(int(found.leader_epoch), int(found.end_offset))

    def _request_fetch(
        self, at: Place, offset: int, max_bytes: int, isolation: Isolation
    ) -> Fetched:
        """One attempt of `fetch`."""
        connection = self._broker_connection(at.topic, at.partition, at.replica)
        version = connection.version(ApiKey.FETCH)
        wanted = fetch_request(at, offset, max_bytes, isolation)
        request = replica_fetch.encode_request(version, wanted)
        with _RetryOnConnectionError(self, connection.address, at.topic, at.partition):
            body = connection.exchange(ApiKey.FETCH, version, request)
        try:
            answer = replica_fetch.decode_response(version, body)
        except ProtocolViolation as violation:
            self.drop_connection(connection.address, at.topic)
            raise errors.ProtocolError(
                f"{connection}: {violation}", "see the broker's log", at.topic, at.partition
            ) from violation
        self._check(answer.error_code, at.topic, at.partition, at.replica, offset)
        found: FetchPartitionResponse = self._partition_entry(
            answer.topics, connection, at.topic, at.partition
        )
        self._check(found.error_code, at.topic, at.partition, at.replica, offset)
        records = found.records or b""
        assert isinstance(records, memoryview | bytes)
        return Fetched(
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            memoryview(records),
            None if isolation is Isolation.READ_UNCOMMITTED else found.aborted_transactions or (),
        )

    def _partition_entry(
        self, topics: Sequence[Any], connection: Connection, topic: str, partition: int
    ) -> Any:
        """The entry of the only partition in an answer. Raises `ProtocolError`."""
        found = self._single_entry(topics, connection, topic, partition)
        return self._single_entry(found.partitions, connection, topic, partition)

    def _single_entry(
        self,
        entries: Sequence[Found],
        connection: Connection,
        topic: str,
        partition: int = errors.NO_PARTITION,
    ) -> Found:
        """The only entry in an answer to a request for one thing. Raises `ProtocolError`."""
        if len(entries) != 1:
            self.drop_connection(connection.address, topic)
            what = f"{connection} sent an answer with {len(entries)} entries in place of 1"
            raise errors.ProtocolError(what, "see the broker's log", topic, partition)
        return entries[0]

    # -- connections

    def _any_connection(self) -> Connection:
        """A connection to any broker of the cluster; raises `_Retry` if none can be reached."""
        last: OSError | None = None
        for address in dict.fromkeys((*self._brokers.values(), *self._access.bootstrap)):
            try:
                return self._connection_to(address)
            except OSError as error:
                last = error
        servers = ", ".join(f"{host}:{port}" for host, port in self._access.bootstrap)
        raise _Retry(unreachable(f"no broker answers at {servers}", last))

    def _broker_connection(self, topic: str, partition: int, replica: int) -> Connection:
        """A connection to the leader of a partition, or to the broker with id `replica`.

        Raises `_Retry` or `WireError` if there is no leader, or that broker has no replica.
        """
        facts = self._topics.get(topic) or self._request_topic(topic)
        known = facts.partitions.get(partition)
        if known is None:
            self._check(ErrorCode.unknown_topic_or_partition, topic, partition, replica)
            raise AssertionError("unreachable: `_check` raises for every error code")
        broker_id = known.leader_id if replica == LEADER else replica
        if broker_id < 0:
            self._check(ErrorCode.leader_not_available, topic, partition, replica)
        if replica != LEADER and replica not in known.replicas:
            self._check(ErrorCode.not_leader_or_follower, topic, partition, replica)
        address = facts.brokers.get(broker_id)
        if address is None:
            self._topics.pop(topic, None)
            what = f"broker {broker_id} has no address on this listener, or is not alive"
            raise _Retry(unreachable(what, None, topic, partition))
        with _RetryOnConnectionError(self, address, topic, partition):
            return self._connection_to(address)

    def _connection_to(self, address: Address) -> Connection:
        """The open connection to a broker, or a new one. Raises `OSError` and `WireError`."""
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection(address, self._access)
        return found

    def _send_request(
        self,
        connection: Connection,
        key: ApiKey,
        version: int,
        request: object,
        topic: str,
        partition: int = errors.NO_PARTITION,
    ) -> Any:
        """Send a request, and return its answer; raises `_Retry` if the connection fails."""
        with _RetryOnConnectionError(self, connection.address, topic, partition):
            return connection.send_request(key, version, request)

    def drop_connection(self, address: Address, topic: str) -> None:
        """Close the connection to a broker, and forget the topic's leaders: they may be wrong."""
        self._topics.pop(topic, None)
        if connection := self._connections.pop(address, None):
            connection.close()

    # -- errors and retries

    def _check(self, code: int, topic: str, partition: int, replica: int, offset: int = -1) -> None:
        """Raise the error for an error code, `_Retry` if a retry may help; nothing for `none`."""
        if code == ErrorCode.none:
            return
        verdict, final = judged(error_code(code), topic, partition, replica, offset)
        self._topics.pop(topic, None)  # the leader may have changed
        if verdict is Verdict.AGAIN or isinstance(final, errors.UnknownTopic):
            raise _Retry(final)
        raise final

    def _retry(self, attempt: Callable[[], Found]) -> Found:
        """Repeat an attempt until it does not raise `_Retry`, or until the timeout.

        For an unknown topic the timeout is shorter: it rarely appears later.
        """
        began_s = time.monotonic()
        for pause_s in _pauses():
            try:
                return attempt()
            except _Retry as again:
                patience_s = self._access.patience_ms / 1000
                if isinstance(again.final, errors.UnknownTopic):
                    patience_s = min(patience_s, _UNKNOWN_TOPIC_PATIENCE_S)
                if time.monotonic() + pause_s > began_s + patience_s:
                    raise again.final from again
            time.sleep(pause_s)
        raise AssertionError("unreachable: `_pauses` is endless")


class _RetryOnConnectionError:
    """A context that drops the connection after an error, and makes an `OSError` a `_Retry`."""

    def __init__(self, client: Client, address: Address, topic: str, partition: int) -> None:
        self._client = client
        self._address = address
        self._topic, self._partition = topic, partition

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, OSError | WireError):
            return
        self._client.drop_connection(self._address, self._topic)
        if isinstance(error, OSError):
            what = f"{self._address[0]}:{self._address[1]} does not answer"
            raise _Retry(unreachable(what, error, self._topic, self._partition)) from error


def fetch_request(at: Place, offset: int, max_bytes: int, isolation: Isolation) -> FetchRequest:
    """A Fetch of one partition, without a fetch session."""
    # -1: no leader epochs, and no log start offset of a follower.
    partition = FetchPartition(at.partition, -1, offset, -1, -1, max_bytes)
    return FetchRequest(
        replica_id=consumer_id(at.replica),
        replica_epoch=-1,
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(None, at.topic_id, [partition])],
        forgotten_topics=[],
        rack_id="",
        cluster_id=None,
    )


def consumer_id(replica: int) -> int:
    """The replica id of a Fetch or ListOffsets: an ordinary consumer's for `LEADER`. For a broker's
    id it is a debugging consumer's, which reads this broker's own replica, also of a follower."""
    return ORDINARY_CONSUMER_ID if replica == LEADER else DEBUGGING_CONSUMER_ID


def error_code(code: int) -> ErrorCode:
    """An error code of an answer; one that Kafka does not define is `unknown_server_error`."""
    with suppress(ValueError):
        return ErrorCode(code)
    return ErrorCode.unknown_server_error


def unreachable(
    what: str, error: OSError | None, topic: str = "", partition: int = errors.NO_PARTITION
) -> errors.Unreachable:
    """The error if a broker does not answer; `error` is the reason, if there was one."""
    file = None if error is None else error.filename
    reason = f"{file}: " if file else ""
    why = f" ({reason}{error.strerror or error})" if error is not None else ""
    remedy = "check option bootstrap.servers, that brokers run, and that this pod may reach them"
    if isinstance(error, ssl.SSLError):
        remedy = (
            "check options security.protocol and ssl.ca.location, the host name in the certificate "
            "of the broker, and whether the listener needs ssl.certificate.location; its key must "
            "not be encrypted"
        )
    elif file:
        remedy = "check options ssl.ca.location, ssl.certificate.location and ssl.key.location"
    return errors.Unreachable(f"{what}{why}", remedy, topic, partition)


def _pauses() -> Iterator[float]:
    """The seconds to wait before each retry, without end: doubled up to a maximum."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
