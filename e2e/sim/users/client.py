"""A client of one user: it logs in at each broker, and does what its user may do, or may not.

It writes, reads and describes topics, one request after the other on each connection. It sends a
record only once, so each one is stored once or not at all.
"""

import asyncio
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, Final
from uuid import UUID

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.security.tls import certificates_of
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_operator.users.secret import CERTIFICATE as USER_CERTIFICATE
from chiplog_operator.users.secret import PASSWORD as PASSWORD_ENTRY
from chiplog_wire.client.errors import OpeningRefused
from chiplog_wire.client.opening import Opening, learn_versions, log_in
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NOT_IDEMPOTENT, BatchOptions, NewRecord, build_batch
from chiplog_wire.scram import Mechanism, ScramClient, new_nonce
from e2e.security.cases import STRANGER, Context, cases
from e2e.sim.api_store import ApiStore
from e2e.sim.clients import Notebook
from e2e.sim.history import Kind
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.network import Transport
from e2e.sim.tls import ClientTls, is_issued_by, is_valid
from e2e.sim.users.accounts import (
    DESCRIBE,
    OPERATIONS,
    PASSWORD,
    READ,
    TOPICS,
    WRITE,
    Account,
    entry,
)
from e2e.sim.users.habits import UserHabits
from e2e.sim.users.history import Answer, Login, UserHistory
from e2e.sim.users.watch import CA_ENTRY, Logged, UserWatch, key_of
from e2e.sim.wire import UNREACHED, TopicPartition, Wire, exchange

SCRAM_PORT: Final = 9095
TLS_PORT: Final = 9093
TIMEOUT_S: Final = 5.0
RENEW_SHARE: Final = 0.85
"""A client renews its login after this share of its lifetime, like Java's."""
RESUMED_SHARE: Final = 0.5
"""Share of handshakes in which a client offers a saved session."""
DENIED: Final = ErrorCode.topic_authorization_failed
ANYTHING_SHARE: Final = 0.1
"""Share of requests of any API, most of which are denied: only whether they are answered counts."""
ANYTHING: Final = tuple(
    one
    for one in cases(Context(UUID(int=1), "own", UUID(int=2), STRANGER, STRANGER))
    if one.key is not ApiKey.PRODUCE and one.is_answered
)


class LoginRefused(OSError):  # noqa: N818 - a name for what happened
    """The broker has refused the password or the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the clients of all users of a run share."""

    nodes: Mapping[int, Node]
    store: ApiStore
    notebook: Notebook
    watch: UserWatch
    habits: UserHabits
    partitions: Callable[[], list[TopicPartition]]
    """The partitions that clients use."""
    leader: Callable[[TopicPartition], int]
    """The broker that leads a partition; -1 if none does."""

    @property
    def history(self) -> UserHistory:
        return self.notebook.history.users


class _Wire(Wire):
    """Sends the requests of the base class on one connection, whatever their address is."""

    def __init__(self, connection: PeerConnection, chance: random.Random, name: str) -> None:
        super().__init__((), chance, name)
        self._connection = connection
        self.fetch_wait_ms = 100

    async def ask(
        self,
        at: tuple[str, int],
        key: ApiKey,
        message: object,
        version: int = -1,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        del at
        return await exchange(self._connection, key, message, version, timeout_s)


@dataclass(slots=True, kw_only=True)
class _Connection:
    """A connection that is logged in."""

    number: int
    """The broker."""
    peer: PeerConnection
    wire: _Wire
    logged: Logged
    is_careless: bool
    lifetime_s: float = inf

    @property
    def expires_s(self) -> float:
        return self.logged.login_s + self.lifetime_s

    def is_due(self, now_s: float) -> bool:
        """Whether its login has to be renewed now."""
        due_s = self.logged.login_s + RENEW_SHARE * self.lifetime_s
        return not self.is_careless and now_s >= due_s


@dataclass(slots=True)
class _Saved:
    """What a client has saved for handshakes."""

    certificates: list[bytes] = field(default_factory=list)
    """All that its user ever had, in DER, the present one last."""
    tls: dict[int, ClientTls] = field(default_factory=dict)
    """Broker -> its last handshake."""


class UserClient:
    """The client of one user."""

    def __init__(self, account: Account, around: Surroundings, chance: random.Random) -> None:
        self.name = f"user-{account.name}"
        self.account = account
        self.served_s: dict[int, float] = {}
        """Broker -> when it has last allowed something."""
        self.is_stopping = False
        self._around = around
        self._chance = chance
        self._saved = _Saved()
        self._sent = 0
        self._writers = 0
        """How often it has begun to write under another name: after each lost answer, since a
        record without an answer may be stored later than those after it."""

    async def run(self) -> None:
        """Talk to all brokers at the same time, also to those that come later."""
        talking: set[int] = set()
        async with asyncio.TaskGroup() as group:
            while not self.is_stopping:
                for number in sorted(self._around.nodes.keys() - talking):
                    talking.add(number)
                    group.create_task(self._talk(number))
                await asyncio.sleep(1.0)

    async def _talk(self, number: int) -> None:
        """Talk to one broker until stopped."""
        chance, habits = self._chance, self._around.habits
        connection: _Connection | None = None
        while not self.is_stopping:
            await asyncio.sleep(chance.uniform(0.05, habits.pause_s))
            if connection is not None and chance.random() < habits.reconnect_share:
                self._close(connection)
                connection = None
            try:
                if connection is None:
                    connection = await self._connect(number)
                elif connection.is_due(self._now_s()):
                    await self._renew(connection)
                await self._do_something(connection)
            except UNREACHED as error:
                self._around.notebook.error(type(error).__name__)
                if connection is not None:
                    self._close(connection)
                connection = None
                await asyncio.sleep(chance.uniform(0.0, habits.pause_s))

    def _now_s(self) -> float:
        return self._around.notebook.now_s()

    def _close(self, connection: _Connection) -> None:
        self._around.watch.logged.pop(connection.logged, None)
        connection.peer.close()

    # -- logins

    async def _connect(self, number: int) -> _Connection:
        """Open a connection and log in. Raises one of `UNREACHED`."""
        peer = PeerConnection(self.name)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self.account.type == PASSWORD:
                    return await self._connect_with_password(number, peer)
                return await self._connect_with_certificate(number, peer)
        except BaseException:
            peer.close()
            raise

    async def _connect_with_password(self, number: int, peer: PeerConnection) -> _Connection:
        end = await _open(peer, SCRAM_PORT, self._tls(number))
        await _all_of(peer, learn_versions(peer.wire))
        password = self._password()
        lifetime_s = await self._log_in(number, peer, end, password)
        return self._opened(number, peer, end, password, lifetime_s)

    async def _connect_with_certificate(self, number: int, peer: PeerConnection) -> _Connection:
        tls = self._saved_tls(number) or self._tls(number, self._certificate())
        login = self._begun(number, authority=self._authority_of(tls.certificate))
        was_valid = self._is_valid(number, tls.certificate)
        try:
            end = await _open(peer, TLS_PORT, tls)
            self._saved.tls[number] = tls
            # The broker also looks at the certificate of a resumed session, after its handshake.
            await _all_of(peer, learn_versions(peer.wire))
        except ssl.SSLError as refused:
            login.is_valid = was_valid and self._is_valid(number, tls.certificate)
            if tls.asked_s:
                self._note(login, tls.asked_s, is_accepted=False)
            raise LoginRefused(str(refused)) from refused
        login.was_resumed = tls.was_resumed
        login.is_valid = was_valid or self._is_valid(number, tls.certificate)
        self._note(login, tls.asked_s, end, is_accepted=True)
        return self._opened(number, peer, end)

    async def _renew(self, connection: _Connection) -> None:
        """Renew the login of a connection. Raises one of `UNREACHED`."""
        logged, password = connection.logged, self._password()
        connection.lifetime_s = await self._log_in(
            connection.number, connection.peer, logged.server_end, password
        )
        logged.login_s, logged.password = self._now_s(), password
        self._around.watch.opened(logged)

    def _opened(
        self,
        number: int,
        peer: PeerConnection,
        end: Transport,
        password: str = "",
        lifetime_s: float = inf,
    ) -> _Connection:
        """A connection that is logged in now."""
        logged = Logged(
            client=self.name,
            user=self.account.name,
            principal=self.account.principal,
            password=password,
            login_s=self._now_s(),
            server_end=end,
        )
        self._around.watch.opened(logged)
        return _Connection(
            number=number,
            peer=peer,
            wire=_Wire(peer, self._chance, self.name),
            logged=logged,
            is_careless=self._chance.random() < self._around.habits.careless_share,
            lifetime_s=lifetime_s,
        )

    async def _log_in(
        self, number: int, peer: PeerConnection, end: Transport, password: str
    ) -> float:
        """Log in with this password; returns the lifetime of the login, in seconds. Raises one of
        `UNREACHED`."""
        nonce = new_nonce(self._chance.randbytes)
        scram = ScramClient(Mechanism.SCRAM_SHA_512, self.account.name, password, nonce)
        login, asked_s = self._begun(number, password=password), self._now_s()
        try:
            answer = await _all_of(peer, log_in(peer.wire, scram))
        except OpeningRefused as refused:
            if refused.code is ErrorCode.sasl_authentication_failed:
                self._note(login, asked_s, end, is_accepted=False)
            raise LoginRefused(str(refused)) from refused
        login.lifetime_s = answer.session_lifetime.total_seconds() or inf
        self._note(login, asked_s, end, is_accepted=True)
        return login.lifetime_s

    def _begun(self, number: int, *, password: str = "", authority: str = "") -> Login:
        """A login that begins now."""
        process = self._around.nodes[number].process
        return Login(
            at_s=0.0,
            asked_s=0.0,
            client=self.name,
            user=self.account.name,
            process="" if process is None else process.name,
            broker_id=number,
            is_accepted=False,
            password=password,
            authority=authority,
        )

    def _note(
        self, login: Login, asked_s: float, end: Transport | None = None, *, is_accepted: bool
    ) -> None:
        """Note the result of a login. `end` is the broker's, if there is a connection."""
        if end is not None:
            login.process, login.resumed_s = end.process.name, end.process.resumed_s
        login.asked_s, login.at_s, login.is_accepted = asked_s, self._now_s(), is_accepted
        self._around.history.logins.append(login)

    # -- credentials

    def _password(self) -> str:
        """The password in the user's Secret, or sometimes an earlier one."""
        secret = self._around.store.peek(kinds.SECRETS, NAMESPACE, self.account.name)
        present = entry(secret, PASSWORD_ENTRY).decode() or self.account.password
        earlier = [one for one in self.account.passwords if one != present]
        if earlier and self._chance.random() < self._around.habits.stale_share:
            return self._chance.choice(earlier)
        return present

    def _certificate(self) -> bytes:
        """The certificate in the user's Secret, or sometimes an earlier one; empty if it never had
        one."""
        known = self._saved.certificates
        secret = self._around.store.peek(kinds.SECRETS, NAMESPACE, self.account.name)
        present = certificates_of(entry(secret, USER_CERTIFICATE))
        if present and present[0] not in known:
            known.append(present[0])
        if len(known) > 1 and self._chance.random() < self._around.habits.stale_share:
            return self._chance.choice(known[:-1])
        return known[-1] if known else b""

    def _saved_tls(self, number: int) -> ClientTls | None:
        """The last handshake with a broker, to resume its session; None for a new one."""
        saved = self._saved.tls.get(number)
        return saved if saved and self._chance.random() < RESUMED_SHARE else None

    def _tls(self, number: int, certificate: bytes = b"") -> ClientTls:
        """A handshake with a broker, with the CAs of servers that are published now."""
        published = self._around.store.peek(
            kinds.SECRETS, NAMESPACE, names.cluster_ca_certificate(CLUSTER)
        )
        return ClientTls(
            trusted=tuple(certificates_of(entry(published, CA_ENTRY))),
            certificate=certificate,
            host=f"{self._around.nodes[number].host}.{names.brokers_service(CLUSTER)}",
            now=lambda: datetime.fromtimestamp(self._around.notebook.now_ms() / 1000, UTC),
        )

    def _authority_of(self, certificate: bytes) -> str:
        """The key of the CA that has issued a certificate, of those that ever were."""
        issuers = self._around.watch.authorities
        found = (one for one in issuers if certificate and is_issued_by(certificate, one))
        return next((key_of(one) for one in found), "")

    def _is_valid(self, number: int, certificate: bytes) -> bool:
        """Whether a certificate is valid by the clock of a broker."""
        now = self._around.nodes[number].clock.now()
        return bool(certificate) and is_valid(certificate, now)

    # -- requests

    async def _do_something(self, connection: _Connection) -> None:
        """Send a request, and note whether it was allowed. Raises one of `UNREACHED`."""
        if self._chance.random() < ANYTHING_SHARE:
            one = self._chance.choice(ANYTHING)
            await connection.wire.say(("", 0), one.key, one.version, one.values)
            return
        topic, operation = self._chance.choice(TOPICS), self._chance.choice(OPERATIONS)
        led = [
            one
            for one in self._around.partitions()
            if one.topic == topic and self._around.leader(one) == connection.number
        ]
        asked_s, login_s, expires_s = (
            self._now_s(),
            connection.logged.login_s,
            connection.expires_s,
        )
        if not led:
            operation, error = DESCRIBE, await _metadata_error(connection.wire, topic)
        else:
            error = await self._do(connection.wire, operation, self._chance.choice(led))
        if error not in {0, DENIED}:
            self._around.notebook.error(ErrorCode(error).name)
            return
        process = connection.logged.server_end.process
        answer = Answer(
            at_s=self._now_s(),
            asked_s=asked_s,
            client=self.name,
            user=self.account.name,
            principal=connection.logged.principal,
            process=process.name,
            right=(operation, topic),
            is_allowed=not error,
            login_s=login_s,
            expires_s=expires_s,
            resumed_s=process.resumed_s,
        )
        self._around.history.answers.append(answer)
        if not error:
            self.served_s[connection.number] = answer.at_s

    async def _do(self, wire: _Wire, operation: str, partition: TopicPartition) -> int:
        """Do this with a partition; returns the error code."""
        if operation == WRITE:
            return await self._write(wire, partition)
        if operation == READ:
            found = await wire.fetch(("", 0), {partition: 0}, max_bytes=1000)
            # The topic may have been created again, with another id.
            return found[0].error if found else ErrorCode.unknown_topic_id
        error, _ = await wire.offset(("", 0), partition)
        return error

    async def _write(self, wire: _Wire, partition: TopicPartition) -> int:
        """Write a record; returns the error code."""
        notebook = self._around.notebook
        writer = f"{self.name}.{self._writers}"
        value = f"{writer}/{partition}/{self._sent}"
        self._sent += 1
        notebook.note(Kind.SENT, writer, partition, value)
        record = NewRecord(value.encode(), timestamp_ms=notebook.now_ms())
        batch = bytes(build_batch([record], BatchOptions(producer=NOT_IDEMPOTENT)))
        try:
            error, offset = await wire.produce(("", 0), partition, batch, -1)
        except UNREACHED:
            self._writers += 1
            raise
        if not error:
            is_known = not notebook.is_deleted(partition)
            notebook.note(Kind.ACKED, writer, partition, value, offset if is_known else -1)
        elif error != DENIED:
            self._writers += 1
        return error


async def _metadata_error(wire: _Wire, topic: str) -> int:
    """The error code of a topic in a Metadata response."""
    wanted = {"topics": [{"name": topic, "topic_id": None}]}
    answer = await wire.say(("", 0), ApiKey.METADATA, 12, wanted)
    return int(answer.topics[0].error_code)


async def _all_of(peer: PeerConnection, steps: Opening) -> Any:
    """Carry out all steps of a login; returns the last answer. Raises `PeerError`,
    `OpeningRefused`, and `AuthenticationFailed`."""
    answer = None
    try:
        while True:
            answer = await peer.send_request(*steps.send(answer), TIMEOUT_S)
    except StopIteration:
        return answer


async def _open(peer: PeerConnection, port: int, tls: ClientTls) -> Transport:
    """Connect and complete the handshake; returns the broker's end. Raises `OSError`."""
    loop: Any = asyncio.get_running_loop()
    here, _ = await loop.create_connection(lambda: peer, tls.host, port, ssl=tls)
    end: Transport = here.pipe.target
    return end
