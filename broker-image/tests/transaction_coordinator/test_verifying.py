"""Questions to coordinators on other brokers, and what clients get of the answers."""

import asyncio
from typing import Any, cast
from uuid import uuid4

import pytest

from chiplog_broker.metadata.view import BrokerView, ClusterView, PartitionView, TopicView
from chiplog_broker.peers.errors import PeerLost
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transaction_coordinator.verified_codes import offsets_code, produce_code
from chiplog_broker.transaction_coordinator.verifying import Question, TransactionVerifier
from chiplog_core.config.effective import TopicConfig
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode

OK = ErrorCode.none
NOT_AVAILABLE = ErrorCode.coordinator_not_available
PRODUCER = Producer(5, 2)
ORDERS, OTHERS = At("orders", 0), At("orders", 3)


class Peer:
    """The other broker, and the connection to it."""

    is_open = True

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.codes: dict[str, ErrorCode] = {}
        """By transactional id; success for others."""
        self.fails: Exception | None = None
        self.top_code = OK
        self.version = 5
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def common_version(self, _: ApiKey) -> int:
        return self.version

    def close(self) -> None:
        """Nothing is open."""

    async def dial(self, *_: Any, **__: Any) -> "Peer":
        return self

    async def send_request(self, key: ApiKey, version: int, message: Any, _: float) -> Any:
        self.requests.append(message)
        await self.may_answer.wait()
        if self.fails is not None:
            raise self.fails
        types = schema.response_class(key, version)
        result = schema.element(types, "results_by_transaction")
        topic_result = schema.element(result, "topic_results")
        partition_result = schema.element(topic_result, "results_by_partition")
        return types(
            **schema.defaults(types)
            | {
                "error_code": self.top_code,
                "results_by_transaction": tuple(
                    result(
                        transactional_id=one.transactional_id,
                        topic_results=tuple(
                            topic_result(
                                name=topic.name,
                                results_by_partition=tuple(
                                    partition_result(
                                        partition_index=index,
                                        partition_error_code=self.codes.get(
                                            one.transactional_id, OK
                                        ),
                                    )
                                    for index in topic.partitions
                                ),
                            )
                            for topic in one.topics
                        ),
                    )
                    for one in message.transactions
                ),
            }
        )


class Coordinator:
    """All transactional ids belong to partition 0."""

    exists = True

    def partition_of(self, _: str) -> int:
        if not self.exists:
            raise TransactionError(NOT_AVAILABLE)
        return 0


class Cluster:
    """Broker 1 asks, broker 2 coordinates."""

    def __init__(self, leader_id: int = 2, *, has_dialer: bool = True) -> None:
        self.view = ClusterView("c", 1)
        for broker_id in (1, 2):
            self.view.brokers[broker_id] = BrokerView(broker_id, None, {"internal": ("h", 1)})
        partition = PartitionView(0, leader_id, 1, (1, 2), (1, 2))
        topic = TopicView("__transaction_state", uuid4(), (partition,), TopicConfig({}, {}))
        self.view.put(topic)
        self.peer = Peer()
        self.coordinator = Coordinator()
        coordinator = cast("TransactionCoordinator", self.coordinator)
        dialer: Any = self.peer if has_dialer else None
        self.verifier = TransactionVerifier(self.view, coordinator, dialer)

    async def ask(
        self, transactional_id: str = "t", *partitions: At, adds: bool = False
    ) -> dict[At, ErrorCode]:
        wanted = frozenset(partitions or {ORDERS})
        question = Question(transactional_id, PRODUCER, wanted, adds)
        async with asyncio.timeout(10):
            return dict(await self.verifier.ask(question))

    async def requested(self, count: int) -> None:
        """Wait until the other broker has got this many requests."""
        while len(self.peer.requests) < count:  # noqa: ASYNC110 - nothing notifies of it
            await asyncio.sleep(0)


def test_questions_that_arise_together_share_a_request() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        cluster.peer.codes = {"u": ErrorCode.transaction_abortable}
        answers = await asyncio.gather(
            cluster.ask("t", ORDERS, OTHERS), cluster.ask("u", adds=True), cluster.ask("t", OTHERS)
        )
        assert list(answers) == [
            {ORDERS: OK, OTHERS: OK},
            {ORDERS: ErrorCode.transaction_abortable},
            {OTHERS: OK},
        ]
        # A request has each id once.
        sent = [
            [(one.transactional_id, one.verify_only) for one in request.transactions]
            for request in cluster.peer.requests
        ]
        assert sent == [[("t", True), ("u", False)], [("t", True)]]
        first = cluster.peer.requests[0].transactions[0]
        assert (first.producer_id, first.producer_epoch) == PRODUCER
        assert [(one.name, one.partitions) for one in first.topics] == [("orders", (0, 3))]
        await cluster.verifier.close()

    asyncio.run(scenario())


def test_one_slow_answer_holds_up_only_its_request() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        cluster.peer.may_answer.clear()
        first = asyncio.ensure_future(cluster.ask("t"))
        await cluster.requested(1)
        second = asyncio.ensure_future(cluster.ask("u"))
        await cluster.requested(2)
        cluster.peer.may_answer.set()
        assert [*await asyncio.gather(first, second)] == [{ORDERS: OK}] * 2

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", ["lost", "refused", "old", "ended", "elected", "absent"])
def test_coordinators_that_cannot_be_asked(failure: str) -> None:
    async def scenario() -> None:
        cluster = Cluster(leader_id=-1 if failure == "elected" else 2)
        peer = cluster.peer
        if failure == "lost":
            peer.fails = PeerLost("closed")
        elif failure == "refused":
            peer.top_code = ErrorCode.cluster_authorization_failed
        elif failure == "old":
            peer.version = 3
        elif failure == "ended":
            del cluster.view.brokers[2]
        elif failure == "absent":
            cluster.coordinator.exists = False
        assert await cluster.ask() == {ORDERS: NOT_AVAILABLE}
        if failure == "lost":
            peer.fails = None
            assert await cluster.ask() == {ORDERS: OK}, "the next question is sent"

    asyncio.run(scenario())


def test_nothing_waits_for_a_broker_that_stops() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        cluster.peer.may_answer.clear()
        waiting = [asyncio.ensure_future(cluster.ask(f"{number}")) for number in range(8)]
        await cluster.requested(1)
        await cluster.verifier.close()
        assert await asyncio.gather(*waiting) == [{ORDERS: NOT_AVAILABLE}] * 8
        assert await cluster.ask() == {ORDERS: NOT_AVAILABLE}
        await cluster.verifier.close()
        assert await Cluster(has_dialer=False).ask() == {ORDERS: NOT_AVAILABLE}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "produce", "offsets"),
    [
        # What clients get in Produce 10, 11 and 12, and in TxnOffsetCommit 3, 4 and 5.
        ("none", ["none"] * 3, ["none"] * 3),
        (
            "concurrent_transactions",
            ["not_enough_replicas", "not_enough_replicas", "concurrent_transactions"],
            ["coordinator_load_in_progress"] * 3,
        ),
        ("not_coordinator", ["not_enough_replicas"] * 3, ["coordinator_load_in_progress"] * 3),
        (
            "unknown_topic_or_partition",
            ["not_enough_replicas"] * 3,
            ["coordinator_load_in_progress"] * 3,
        ),
        ("producer_fenced", ["invalid_producer_epoch"] * 3, ["invalid_producer_epoch"] * 3),
        (
            "transaction_abortable",
            ["invalid_txn_state", "transaction_abortable", "transaction_abortable"],
            ["invalid_txn_state", "transaction_abortable", "transaction_abortable"],
        ),
        (
            "invalid_producer_id_mapping",
            ["invalid_producer_id_mapping"] * 3,
            ["invalid_producer_id_mapping"] * 3,
        ),
    ],
)
def test_codes_that_clients_get(code: str, produce: list[str], offsets: list[str]) -> None:
    found = ErrorCode[code]
    assert [produce_code(found, version).name for version in (10, 11, 12)] == produce
    assert [offsets_code(found, version).name for version in (3, 4, 5)] == offsets
