"""Connections to brokers that this program makes itself, with TLS and a login.

librdkafka reports a wrong certificate or password only as a request without an answer. So each
command first connects by itself, which costs a few round trips and gives the reason.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_bytes

from chiplog_cli import first_messages
from chiplog_cli.bearer import Token
from chiplog_cli.errors import NotLetIn
from chiplog_cli.security import Login, SaslMechanism, Security, Tls, TokenLogin
from chiplog_cli.tls_context import tls_context
from chiplog_cli.tokens import current_token
from chiplog_wire.scram import AuthenticationFailed, Mechanism, ScramClient, new_nonce, saslprep

CLIENT_ID = "chiplog-cli"
CONNECT_LIMIT_S = 5.0
MAX_LOGIN_ANSWER_BYTES = 1024 * 1024
TAKES_CREDENTIALS = (
    "use --config FILE with security.protocol and Kafka's other client properties, or --cluster "
    "NAME --user NAME on Kubernetes"
)


class BrokerSocket:
    """A connection to one broker. Every wait together ends after `timeout_s`."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        self._socket = connected
        self._deadline_s = time.monotonic() + timeout_s

    def ask(self, request: bytes, max_answer_bytes: int) -> bytes:
        """Send a request, and return its answer without the length. Raises `OSError`, and
        `ValueError` if the other end does not answer like a broker."""
        self.send(request)
        return self.receive(max_answer_bytes)

    def send(self, request: bytes) -> None:
        self._socket.settimeout(self._left_s())
        self._socket.sendall(request)

    def receive(self, max_bytes: int) -> bytes:
        """The next answer. Raises as `ask`."""
        beginning = self._exactly(4)
        if beginning[0] == first_messages.TLS_ALERT:
            raise NotLetIn("the listener has TLS", TAKES_CREDENTIALS)
        size = int.from_bytes(beginning, "big")
        if not 0 < size <= max_bytes:
            raise ValueError("it does not answer as a broker does")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._socket.settimeout(self._left_s())
            piece = self._socket.recv(size - len(found))
            if not piece:
                raise ConnectionResetError("it closed the connection")
            found += piece
        return bytes(found)

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        return left_s


@contextmanager
def connected(
    place: tuple[str, int], security: Security, timeout_s: float
) -> Iterator[BrokerSocket]:
    """A connection, logged in if there is a login. Connecting may take `CONNECT_LIMIT_S`; what
    comes then, `timeout_s`. Raises `OSError`, `NotLetIn`, `ValueError`
    if the other end does not answer like a broker, and `CannotDo` if there is no token for the
    login."""
    login = security.login
    shown = current_token(login, timeout_s) if isinstance(login, TokenLogin) else None
    with socket.create_connection(place, min(timeout_s, CONNECT_LIMIT_S)) as plain:
        plain.settimeout(timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _with_tls(plain, security.tls, place[0]) as encrypted:
            found = BrokerSocket(encrypted, timeout_s)
            if login is not None:
                _log_in(found, login, shown)
            yield found


@contextmanager
def _with_tls(plain: socket.socket, tls: Tls | None, host: str) -> Iterator[socket.socket]:
    """The socket with TLS, or as it is. Raises `OSError` and `NotLetIn`."""
    if tls is None:
        yield plain
        return
    try:
        encrypted = tls_context(tls).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise NotLetIn(
            f"its certificate is refused: {error.verify_message}",
            "trust the CA of the cluster, and use a host name that is in the certificate",
        ) from error
    except ssl.SSLError as error:
        raise _refused(error) from error
    with encrypted:
        try:
            yield encrypted
        except ssl.SSLError as error:  # a server of TLS 1.3 refuses certificates only now
            raise _refused(error) from error


def _refused(error: ssl.SSLError) -> NotLetIn:
    """The error if TLS fails other than by the broker's certificate."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return NotLetIn(
        f"TLS fails: {reason}",
        "check that the listener has TLS, and whether it needs a client's certificate",
    )


def check_without_login(broker: BrokerSocket) -> None:
    """Check that the listener answers without a login. Raises as `connected`."""
    broker.send(first_messages.greetings(CLIENT_ID))
    try:
        broker.receive(MAX_LOGIN_ANSWER_BYTES)
    except ConnectionResetError as error:
        raise NotLetIn("it closed the connection; it may need TLS", TAKES_CREDENTIALS) from error
    try:
        broker.receive(MAX_LOGIN_ANSWER_BYTES)
    except ConnectionResetError as error:
        raise NotLetIn("the listener needs a login", TAKES_CREDENTIALS) from error


def _log_in(broker: BrokerSocket, login: Login | TokenLogin, token: Token | None) -> None:
    """Log in. `token` is the one of a `TokenLogin`. Raises as `connected`."""
    mechanism = login.mechanism
    try:
        answer = broker.ask(first_messages.handshake(CLIENT_ID, mechanism), MAX_LOGIN_ANSWER_BYTES)
        first_messages.check_handshake(answer, mechanism)
        if isinstance(login, TokenLogin):
            assert token is not None, "it was read or requested before"
            _show_token(broker, token, login.extensions)
        else:
            _show_password(broker, login)
    except AuthenticationFailed as failed:
        raise NotLetIn(
            f"the broker does not prove that it knows the password: {failed}", "check the address"
        ) from failed
    except ConnectionResetError as error:
        raise NotLetIn(
            "it closed the connection instead of a login",
            "check security.protocol: the listener may have no login, or TLS",
        ) from error


def _show_password(broker: BrokerSocket, login: Login) -> None:
    """Exchange the messages of PLAIN or SCRAM. Raises as `connected`, and
    `AuthenticationFailed`."""

    def ask(message: bytes) -> bytes:
        return _exchange(broker, message, "check the name and the password")

    if login.mechanism is SaslMechanism.PLAIN:
        ask(first_messages.plain_message(login.username, login.password))
        return
    scram = _scram(login)
    scram.verify(ask(scram.final(ask(scram.first()))))


def _show_token(
    broker: BrokerSocket, token: Token, extensions: tuple[tuple[str, str], ...]
) -> None:
    """Exchange the messages of OAUTHBEARER. Raises as `connected`."""
    remedy = (
        "check that the token has the issuer and the audience of the listener, and this machine "
        "the right time"
    )
    message = first_messages.bearer_message(token.text, extensions)
    if _exchange(broker, message, remedy):
        # The reason why the token is refused. The login fails only with this answer.
        _exchange(broker, first_messages.BEARER_REFUSED, remedy)
        raise NotLetIn("the login failed: the token is refused", remedy)


def _exchange(broker: BrokerSocket, message: bytes, remedy: str) -> bytes:
    """Send a message of the mechanism, and return the broker's. Raises as `connected`."""
    request = first_messages.authenticate(CLIENT_ID, message)
    return first_messages.message_in(broker.ask(request, MAX_LOGIN_ANSWER_BYTES), remedy)


def _scram(login: Login) -> ScramClient:
    """The client's side of SCRAM. Raises `NotLetIn` for a password that cannot be prepared."""
    nonce = new_nonce(token_bytes)
    try:
        return ScramClient(
            Mechanism(login.mechanism.value), login.username, saslprep(login.password), nonce
        )
    except ValueError as error:
        raise NotLetIn(f"the password cannot be used: {error}", "choose another one") from None
