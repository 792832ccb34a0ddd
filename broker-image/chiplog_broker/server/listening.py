"""The listening sockets and the connections that they accept.

The number of connections, their idle time and the time for receiving a request are limited: a
client that sends a byte per second would hold its connection for ever. On listeners with
authentication, a `Gate` handles each connection until its login is complete.
"""

import asyncio
import logging
from dataclasses import dataclass, replace

from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.audit import AuditLog, FailedLogin
from chiplog_broker.security.sasl import ANONYMOUS, SaslSession
from chiplog_broker.security.tls import TlsFiles, check_names, principal_of
from chiplog_broker.security.users import Change
from chiplog_broker.server.connection import Connection
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.gate import LOGIN_TIMEOUT_S, Gate
from chiplog_broker.server.limits import ConnectionQuota
from chiplog_broker.server.memory import Account
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_broker.server.tls_accepting import BACKLOG, MAX_HANDSHAKES, TlsDoor
from chiplog_broker.server.tls_sending import is_encrypted
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import UNAUTHENTICATED_MAX_BYTES

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 5.0
# At most one line about refused peers is logged in this time.
LOG_INTERVAL_S = 1.0
# How long a stopping broker waits until answers are ready and received.
CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Activity:
    """The state of a connection when a request was last completed or in progress."""

    frames: int
    """Complete requests up to then."""
    since_s: float
    arrived: list[tuple[float, int]]
    """(Time in seconds, bytes received by then) at each check since then. The first is the start of
    the interval in which the speed of an incomplete request is measured."""

    @classmethod
    def of(cls, connection: Connection, now_s: float) -> "Activity":
        return cls(connection.frames_in, now_s, [(now_s, connection.bytes_in)])


class Acceptor:
    """Accepts the connections of one listener, and is their `Service`."""

    def __init__(  # noqa: PLR0913 - its ports
        self,
        listener: Listener,
        dispatcher: Dispatcher,
        quota: ConnectionQuota,
        clock: Clock,
        metrics: RequestMetrics,
        audit: AuditLog,
        *,
        door_class: type[TlsDoor] = TlsDoor,
    ) -> None:
        assert listener.logins or not listener.mechanisms, "logins are required, but impossible"
        self._listener = listener
        self._audit = audit
        self._door_class = door_class
        # `Service.start`: requests go directly to the dispatcher.
        self.start = dispatcher.start
        self._quota = quota
        self._limits = quota.limits
        quota.make_room.append(self._close_longest_login)
        self._clock = clock
        self._metrics = metrics
        self._connections: dict[Connection, Activity] = {}
        self._logged_s = float("-inf")
        self._sweeper: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        # Accepts the connections of a listener with TLS, up to the end of their handshakes.
        self._door: TlsDoor | None = None

    @property
    def tls_files(self) -> TlsFiles | None:
        """The certificate that is served; None without TLS, or before `bind`."""
        return None if self._door is None else self._door.files

    async def bind(self) -> Listener:
        """Bind the address; returns the listener with its real port. Raises `CannotStart`."""
        socket = self._listener
        if socket.tls is not None:
            # No more than a quarter of all connections: others must find a place.
            at_once = max(1, min(MAX_HANDSHAKES, self._limits.max_connections // 4))
            files = TlsFiles(socket.tls, self._clock)
            self._door = self._door_class(
                files, self, self._clock, at_once, socket.accepts_plain_text
            )
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self.new_connection, socket.host, socket.port, backlog=BACKLOG, start_serving=False
            )
        except OSError as error:
            raise CannotStart(
                f"server.properties[listeners] {socket.name}://{socket.host}:{socket.port} cannot "
                f"be used: {error.strerror or error}; stop the program that uses it, or set "
                "another address"
            ) from error
        if socket.port == 0:
            port = self._server.sockets[0].getsockname()[1]
            advertised_port = socket.advertised_port or port
            self._listener = replace(socket, port=port, advertised_port=advertised_port)
        return self._listener

    async def accept(self) -> None:
        """Accept clients until `close`."""
        assert self._server is not None, "bind comes first"
        if self._door is None:
            await self._server.start_serving()
        else:
            self._door.open(one.fileno() for one in self._server.sockets)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        socket = self._listener
        logger.info(
            "listening", extra={"listener": socket.name, "host": socket.host, "port": socket.port}
        )

    async def close(self) -> None:
        """Accept no more connections, and close the open ones.

        Requests that wait for the disk are answered first, within `CLOSE_TIMEOUT_S`.
        """
        if self._server is None:
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._door is not None:
            await self._door.close()
        self._server.close()
        for connection in list(self._connections):
            connection.finish()
        deadline_s = self._clock.monotonic_s() + CLOSE_TIMEOUT_S
        while self._connections and self._clock.monotonic_s() < deadline_s:
            await self._clock.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        await self._server.wait_closed()

    def new_connection(self) -> Connection:
        """The protocol of a new connection, behind a `Gate` if the listener requires a login."""
        logins, max_frame_bytes = self._listener.logins, self._limits.max_frame_bytes
        if logins is None:
            return Connection(self, max_frame_bytes)

        def new_session() -> SaslSession:
            return logins.session(self._clock.monotonic_s() + LOGIN_TIMEOUT_S)

        gate = Gate(self, new_session, self._clock, max_frame_bytes, self._login_failed)
        return Connection(gate, min(max_frame_bytes, UNAUTHENTICATED_MAX_BYTES))

    # -- Service

    def connected(self, connection: Connection) -> Peer | None:
        """Count a new connection; None refuses it because of the limits."""
        if self._door is not None:
            address = self._door.completed(connection)  # it was admitted before its handshake
            return None if address is None else self._secured_peer(connection, *address)
        # A client that has disconnected already has no address.
        host, port, *_ = connection.transport.get_extra_info("peername") or ("", 0)
        socket = connection.transport.get_extra_info("socket")
        descriptor = -1 if socket is None else socket.fileno()
        if not host or not self.admit(host, descriptor):
            return None
        return self._peer(connection, host, port, ANONYMOUS)

    def _secured_peer(self, connection: Connection, host: str, port: int) -> Peer | None:
        """The client of a connection whose TLS handshake is complete, or that needs none; None
        refuses it."""
        secured = connection.transport.get_extra_info("ssl_object")
        assert self._listener.tls is not None, "there is a door"
        try:
            principal = principal_of(secured, self._clock.now_ms() / 1000)
            if secured is not None:
                check_names(secured, self._listener.tls)
        except ValueError as problem:
            # A trusted CA has signed its certificate, but it has expired, or is somebody else's.
            self._quota.leave(host)
            self.handshake_failed(f"{host}:{port}", str(problem))
            return None
        return self._peer(connection, host, port, principal)

    def _peer(self, connection: Connection, host: str, port: int, principal: str) -> Peer:
        """The client of a connection that was admitted."""
        self._connections[connection] = Activity.of(connection, self._clock.monotonic_s())
        self._metrics.connections += 1
        self._metrics.connections_total += 1
        return Peer(
            host,
            port,
            self._listener,
            principal=principal,
            memory=Account(self._quota.memory, connection),
            descriptors_below=self._limits.descriptors_below,
        )

    def admit(self, host: str, descriptor: int) -> bool:
        """Count a new connection from this address; False refuses it because of the limits."""
        if why := self._why_refused(host, descriptor):
            self._metrics.refused_total += 1
            self._log("connection_refused", host, why)
            return False
        return True

    def leave(self, host: str) -> None:
        """Remove a connection that was admitted, but has not completed its handshake."""
        self._quota.leave(host)

    def handshake_failed(self, peer: str, reason: str) -> None:
        """Count a TLS handshake that failed; log it if there is a reason."""
        self._metrics.failed_handshakes_total += 1
        if reason:
            self._log("tls_handshake_failed", peer, reason)

    def _why_refused(self, host: str, descriptor: int) -> str:
        """Count a new connection; returns why it is refused instead, or an empty string."""
        # The kernel assigns the lowest free descriptor, so this number shows how many are in use.
        if descriptor >= self._limits.descriptors_below:
            return (
                f"descriptor {descriptor} is kept for files and brokers: raise the limit of "
                "open files (RLIMIT_NOFILE), or have fewer connections or partitions"
            )
        if self._quota.is_full:
            # Up to the first that could.
            any(close() for close in (self._close_longest_login, *self._quota.make_room))
        if self._quota.enter(host):
            return ""
        return (
            f"there are too many connections: limits are {self._limits.max_connections} in total "
            f"(max.connections) and {self._limits.max_connections_per_ip} for each client address "
            "(max.connections.per.ip)"
        )

    def _close_longest_login(self) -> bool:
        """Close the connection with the longest incomplete login; False if there is none.

        Legitimate logins take a moment, and must not be kept out by connections that never log in.
        Clients that log in again stay.
        """
        if self._door is not None and self._door.drop_oldest():
            return True
        for connection in self._connections:  # the oldest one comes first
            login = connection.peer.sasl
            if login is not None and login.renews is None:
                connection.abort()
                self.disconnected(connection, None)
                return True
        return False

    def unsent(self, change_bytes: int) -> None:
        self._metrics.unsent_bytes += change_bytes

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        """Remove a closed connection; does nothing if it was removed before."""
        if self._connections.pop(connection, None) is None:
            return
        peer = connection.peer
        self._quota.leave(peer.host)
        if peer.on_left is not None:
            peer.on_left(peer)
        self._metrics.connections -= 1
        if isinstance(why, ProtocolViolation):
            self._metrics.violations_total += 1
            self._log("connection_closed", str(peer), str(why))

    def close_ended(self, change: Change) -> None:
        """Close the connections of users that a change has deleted, or whose password it has
        changed."""
        ended = [
            connection
            for connection in self._connections
            if not connection.peer.is_internal
            and any(
                change.ends(connection.peer.principal, login) for login in connection.peer.logins
            )
        ]
        for connection in ended:
            connection.abort()
        if ended:
            logger.info(
                "users_disconnected",
                extra={"listener": self._listener.name, "connections": len(ended)},
            )

    def unmute(self, _: QuotaTable) -> None:
        """Read connections that are throttled, because quotas have changed."""
        for connection in list(self._connections):
            connection.unmute()

    def _login_failed(self, peer: Peer, login: SaslSession) -> None:
        """Log a login that failed: in the audit log."""
        self._audit.login_failed(
            FailedLogin(peer.host, self._listener.name, login.mechanism, login.claimed_name),
            login.why_failed,
        )

    def _log(self, event: str, peer: str, reason: str) -> None:
        """Log a refused or closed connection, at most one in `LOG_INTERVAL_S`: clients must not
        fill the log."""
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now_s
            logger.warning(event, extra={"peer": peer, "reason": reason})

    # -- idle and slow peers

    async def _sweep(self) -> None:
        """Call `sweep` at intervals, until cancelled."""
        while True:
            await self._clock.sleep(SWEEP_INTERVAL_S)
            self.sweep(self._clock.monotonic_s())

    def sweep(self, now_s: float) -> None:
        """Close connections that are idle, too slow, flooding or in plain text where they must not
        be any more; release the buffers of inactive ones."""
        needs_tls = self._door is not None and not self._listener.accepts_plain_text()
        for connection, activity in list(self._connections.items()):
            login = connection.peer.sasl
            if needs_tls and not is_encrypted(connection.transport):
                self._log("connection_closed", str(connection.peer), "all brokers use TLS now")
                connection.abort()
            elif login is not None and now_s > login.deadline_s:
                connection.abort()
            elif connection.is_flooded:
                self._log("connection_closed", str(connection.peer), "it floods TLS with requests")
                connection.abort()
            elif connection.frames_in != activity.frames or not connection.idle:
                self._connections[connection] = Activity.of(connection, now_s)
            elif self._is_idle_or_slow(connection, activity, now_s):
                connection.abort()
            else:
                connection.trim()

    def _is_idle_or_slow(self, connection: Connection, activity: Activity, now_s: float) -> bool:
        """Whether a client has been idle for too long, or sends a request too slowly."""
        # `arrived` has pairs of a time and the bytes that were received up to then.
        limits, arrived = self._limits, activity.arrived
        if not connection.mid_frame:
            arrived[:] = [(now_s, connection.bytes_in)]
            return now_s - activity.since_s > limits.max_idle_s
        arrived.append((now_s, connection.bytes_in))
        # Keep one entry that is older than the interval: the speed is measured from there.
        while len(arrived) > 1 and arrived[1][0] <= now_s - limits.slow_after_s:
            arrived.pop(0)
        since_s, before_bytes = arrived[0]
        elapsed_s = now_s - since_s
        received_bytes = connection.bytes_in - before_bytes
        return elapsed_s >= limits.slow_after_s and (
            received_bytes < elapsed_s * limits.slowest_bytes_per_s
        )
