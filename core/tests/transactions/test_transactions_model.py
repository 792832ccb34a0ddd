"""Producers of one transactional id that come and go, requests that are late, and coordinators that
are lost: what nobody may ever see."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chiplog_core.groups.at import At
from chiplog_core.transactions.adding import add, verify
from chiplog_core.transactions.answers import Answer, Decision, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import completed, end, is_expired, markers, time_out
from chiplog_core.transactions.initializing import init
from chiplog_core.transactions.producer import FENCING_EPOCH, LAST_EPOCH, Producer
from chiplog_core.transactions.requests import Add, End, Init
from chiplog_core.transactions.states import PREPARED, TransactionState
from chiplog_core.transactions.stored import (
    FIRST_GENERATION,
    SECOND_GENERATION,
    StoredTransaction,
)

PARTITIONS = [At("orders", 0), At("orders", 1), At("bills", 0)]
TIMEOUT_MS = 60_000
EXPIRATION_MS = 1_000_000
AGAIN = {Code.CONCURRENT_TRANSACTIONS, Code.COORDINATOR_LOAD_IN_PROGRESS}
"""With these a client sends the same request again."""

Request = Init | Add | End


@dataclass(eq=False)
class Client:
    """One process that produces with the transactional id. It sends one request after the other."""

    version: int
    asked: Request | None
    identity: Producer | None = None
    added: set[At] = field(default_factory=set)
    """The partitions of its transaction, as far as it knows."""
    is_dead: bool = False
    """Whether it was fenced: then it does nothing more."""


@dataclass
class Waiting:
    """An answer that is due when a record is safe. Without a client it is a late copy, which
    nobody waits for."""

    client: Client | None
    request: Request
    answer: Answer


class World(RuleBasedStateMachine):
    """A transactional id, its log, and everybody who uses it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_700_000_000_000
        self.ids = iter(range(1, 1_000_000))
        self.log: list[StoredTransaction | None] = [None]
        """The records, and None for tombstones. All but the last are safe, and the last one is
        unless `is_pending`."""
        self.is_pending = False
        self.waiting: Waiting | None = None
        self.clients: list[Client] = []
        self.sent: list[Request] = []
        self.owners: dict[Producer, Client] = {}
        self.versions = [SECOND_GENERATION]

    @initialize(
        epoch=st.sampled_from([0, LAST_EPOCH - 2, LAST_EPOCH]),
        versions=st.sampled_from(
            [[FIRST_GENERATION], [SECOND_GENERATION], [FIRST_GENERATION, SECOND_GENERATION]]
        ),
    )
    def begin(self, epoch: int, versions: list[int]) -> None:
        self.versions = versions
        if epoch:
            first = StoredTransaction(
                producer_id=next(self.ids),
                producer_epoch=epoch,
                transaction_timeout_ms=TIMEOUT_MS,
                state=TransactionState.EMPTY,
                last_update_timestamp_ms=self.now_ms,
            )
            self.log.append(first)

    # ---- what a broker does

    @property
    def present(self) -> Present:
        stored = self.log[-2] if self.is_pending else self.log[-1]
        return Present(stored=stored, is_pending=self.is_pending)

    def new_producer_id(self) -> int:
        return next(self.ids)

    def append(self, record: StoredTransaction | None) -> None:
        assert not self.is_pending, "one record at a time"
        before = self.log[-1]
        if record is not None and before is not None:
            self.check_step(before, record)
        self.log.append(record)
        self.is_pending = True

    def check_step(self, before: StoredTransaction, record: StoredTransaction) -> None:
        """Epochs only rise, one by one; a new id begins at 0 and was never used."""
        assert 0 <= record.producer_epoch <= FENCING_EPOCH
        if record.producer_id == before.producer_id:
            assert record.producer_epoch - before.producer_epoch in {0, 1}, "raised twice"
        else:
            used = {one.producer_id for one in self.log if one is not None}
            assert record.producer_id not in used
            assert record.producer_epoch == 0
        if before.state in PREPARED:
            assert record.producer_epoch in {before.producer_epoch, 0}, "raised in PREPARE only"

    def becomes_safe(self) -> None:
        self.is_pending = False
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self.tell(waiting)

    @precondition(lambda self: self.is_pending)
    @rule()
    def the_high_watermark_rises(self) -> None:
        self.becomes_safe()

    @rule(is_cut=st.booleans())
    def the_coordinator_is_lost(self, is_cut: bool) -> None:
        """The next one has all records that were safe, and perhaps the last one, too."""
        self.waiting = None
        if self.is_pending and is_cut:
            self.log.pop()
        self.is_pending = False

    @rule()
    def the_markers_are_written(self) -> None:
        stored = self.present.stored
        if not self.is_pending and stored is not None and stored.state in PREPARED:
            self.check_markers(stored)
            self.append(completed(stored, self.now_ms))

    def check_markers(self, stored: StoredTransaction) -> None:
        """The transaction's partitions, all of them, with an epoch that fences late records."""
        ends = markers(stored)
        begun = self.log[self.log.index(stored) - 1]
        assert begun is not None
        assert ends.partitions == begun.partitions
        assert ends.producer.producer_id == begun.producer_id
        is_second = ends.transaction_version >= SECOND_GENERATION
        assert ends.producer.epoch == begun.producer_epoch + is_second
        event(f"markers of {stored.state} by version {ends.transaction_version}")

    @rule(seconds=st.sampled_from([1, 30, 61]))
    def time_passes(self, seconds: int) -> None:
        self.now_ms += 1_000 * seconds
        record = time_out(self.present, self.new_producer_id, self.now_ms)
        if record is not None:
            event("a timeout")
            self.append(record)

    @rule()
    def the_id_expires(self) -> None:
        if is_expired(self.present, EXPIRATION_MS, self.now_ms + EXPIRATION_MS):
            self.now_ms += EXPIRATION_MS
            self.append(None)

    # ---- what clients do

    @rule(data=st.data())
    def a_client_starts(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(self.versions))
        request = Init(transaction_timeout_ms=TIMEOUT_MS)
        self.clients.append(Client(version, request))
        self.send(self.clients[-1])

    def idle(self, number: int) -> Client | None:
        """A client that may send a new request; mostly the one that started last."""
        idle = [
            one for one in self.clients if one.asked is None and one.identity and not one.is_dead
        ]
        return idle[-1 - number % len(idle)] if idle else None

    @rule(number=st.sampled_from([0, 0, 0, 1]), partition=st.sampled_from(PARTITIONS))
    def a_client_adds(self, number: int, partition: At) -> None:
        if (client := self.idle(number)) is not None and client.identity:
            client.asked = Add(
                producer=client.identity,
                partitions=frozenset({partition}),
                transaction_version=client.version,
            )
            self.send(client)

    @rule(number=st.sampled_from([0, 0, 0, 1]), is_commit=st.booleans())
    def a_client_ends(self, number: int, is_commit: bool) -> None:
        client = self.idle(number)
        if client is None or client.identity is None:
            return
        if client.added or (client.version == SECOND_GENERATION and not is_commit):
            client.asked = End(
                producer=client.identity,
                is_commit=is_commit,
                transaction_version=client.version,
            )
            self.send(client)

    @rule(number=st.sampled_from([0, 0, 0, 1]))
    def a_client_continues_after_an_error(self, number: int) -> None:
        if (client := self.idle(number)) is not None:
            client.asked = Init(transaction_timeout_ms=TIMEOUT_MS, producer=client.identity)
            self.send(client)

    @rule(number=st.integers(0, 3))
    def a_client_asks_again(self, number: int) -> None:
        asking = [one for one in self.clients if one.asked is not None]
        if asking:
            self.send(asking[-1 - number % len(asking)])

    @precondition(lambda self: self.versions == [SECOND_GENERATION])
    @rule(number=st.integers(0, 20))
    def a_request_is_late(self, number: int) -> None:
        """In the first generation it may end another transaction; nothing could tell them
        apart."""
        if self.sent:
            request = self.sent[-1 - number % len(self.sent)]
            if not (isinstance(request, Init) and request.producer is None):
                self.take(None, request)

    def send(self, client: Client) -> None:
        assert client.asked is not None
        self.sent.append(client.asked)
        self.take(client, client.asked)

    def take(self, client: Client | None, request: Request) -> None:
        decision = self.decide(request)
        waiting = Waiting(client, request, decision.answer)
        if decision.record is None:
            self.tell(waiting)
        else:
            self.append(decision.record)
            self.waiting = waiting

    def decide(self, request: Request) -> Decision:
        match request:
            case Init():
                return init(self.present, request, 900_000, self.new_producer_id, self.now_ms)
            case Add():
                return add(self.present, request, self.now_ms)
            case End():
                return end(self.present, request, self.new_producer_id, self.now_ms)

    # ---- what clients see

    def tell(self, waiting: Waiting) -> None:
        client, answer = waiting.client, waiting.answer
        if client is None or client.asked is not waiting.request or answer.code in AGAIN:
            return
        client.asked = None
        if answer.code is not Code.NONE:
            event(f"{type(waiting.request).__name__} ends with {answer.code.name}")
            client.is_dead = True
            return
        match waiting.request:
            case Init():
                self.owns(client, answer.producer)
                client.added = set()
            case Add(partitions=partitions):
                client.added |= partitions
                checked = verify(self.present, waiting.request.producer, partitions)
                assert set(checked.values()) <= {Code.NONE}, "it is in the transaction"
            case End() as request:
                self.check_result(client, request)
                if request.transaction_version == SECOND_GENERATION:
                    self.owns(client, answer.producer)
                client.added = set()

    def owns(self, client: Client, producer: Producer) -> None:
        """No two clients ever have the same identity, and a client never has the same again."""
        assert 0 <= producer.epoch <= LAST_EPOCH
        assert self.owners.setdefault(producer, client) is client
        assert producer != client.identity
        client.identity = producer

    def check_result(self, client: Client, request: End) -> None:
        """The log has what the client was answered, with all partitions that it added."""
        is_second = request.transaction_version == SECOND_GENERATION
        ended = Producer(request.producer.producer_id, request.producer.epoch + is_second)
        found = [
            one
            for one in self.log
            if one is not None and one.state in PREPARED and one.producer == ended
        ]
        assert found, "it was decided"
        last = found[-1]
        assert (last.state is TransactionState.PREPARE_COMMIT) == request.is_commit
        assert client.added <= last.partitions

    # ---- what always holds

    @invariant()
    def in_the_second_generation_an_epoch_has_one_transaction(self) -> None:
        decided = [
            one.producer
            for one in self.log
            if one is not None
            and one.state in PREPARED
            and one.client_transaction_version == SECOND_GENERATION
        ]
        assert len(decided) == len(set(decided))

    @invariant()
    def only_a_record_that_is_decided_changes_partitions(self) -> None:
        last = self.log[-1]
        assert last is None or bool(last.partitions) <= (
            last.state in {TransactionState.ONGOING, *PREPARED}
        )

    # ---- how it ends

    def teardown(self) -> None:
        """A new client gets an epoch, and commits, however all others have left it."""
        client = Client(self.versions[-1], Init(transaction_timeout_ms=TIMEOUT_MS))
        self.settle(client)
        assert client.identity is not None
        before = client.identity
        for request in self.whole_transaction(client.identity, client.version):
            client.asked = request
            self.settle(client)
        assert not client.is_dead
        assert client.identity != before or client.version == FIRST_GENERATION

    def whole_transaction(self, producer: Producer, version: int) -> list[Request]:
        added = Add(
            producer=producer, partitions=frozenset(PARTITIONS), transaction_version=version
        )
        return [added, End(producer=producer, is_commit=True, transaction_version=version)]

    def settle(self, client: Client) -> None:
        """Ask until there is an answer, while brokers do what they must."""
        for _ in range(10):
            if self.is_pending:
                self.becomes_safe()
            self.the_markers_are_written()
            if self.is_pending:
                self.becomes_safe()
            if client.asked is None:
                return
            self.take(client, client.asked)
        raise AssertionError(f"{client.asked} is never answered")


def test_producers_and_coordinators_that_come_and_go() -> None:
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
