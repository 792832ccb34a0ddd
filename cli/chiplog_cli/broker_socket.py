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
from chiplog_cli.errors import NotLetIn
from chiplog_cli.security import Login, SaslMechanism, Security, Tls
from chiplog_kube.pem_file import pem_file
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
    comes then, `timeout_s`. Raises `OSError`, `NotLetIn`, and `ValueError`
    if the other end does not answer like a broker."""
    with socket.create_connection(place, min(timeout_s, CONNECT_LIMIT_S)) as plain:
        plain.settimeout(timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _with_tls(plain, security.tls, place[0]) as encrypted:
            found = BrokerSocket(encrypted, timeout_s)
            if security.login is not None:
                _log_in(found, security.login)
            yield found


@contextmanager
def _with_tls(plain: socket.socket, tls: Tls | None, host: str) -> Iterator[socket.socket]:
    """The socket with TLS, or as it is. Raises `OSError` and `NotLetIn`."""
    if tls is None:
        yield plain
        return
    try:
        encrypted = _context(tls).wrap_socket(plain, server_hostname=host)
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


def _context(tls: Tls) -> ssl.SSLContext:
    """What Python's TLS needs. Raises `NotLetIn` if a certificate or key cannot be used."""
    try:
        context = ssl.create_default_context(cadata=tls.authorities)
    except ssl.SSLError as error:
        raise NotLetIn(
            "the certificates of the CAs cannot be parsed", "correct the truststore"
        ) from error
    # As librdkafka: since Python 3.13 the default refuses CAs without key identifiers.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = tls.checks_host
    if tls.certificate is not None:
        given = tls.certificate
        with pem_file((given.chain + given.key).encode()) as path:
            try:
                context.load_cert_chain(path, password=given.key_password or "")
            except ssl.SSLError as error:
                raise NotLetIn(
                    "the client's certificate and key cannot be used together",
                    "check both, and the password of the key",
                ) from error
    return context


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


def _log_in(broker: BrokerSocket, login: Login) -> None:
    """Log in. Raises as `connected`."""

    def ask(message: bytes) -> bytes:
        request = first_messages.authenticate(CLIENT_ID, message)
        return first_messages.message_in(broker.ask(request, MAX_LOGIN_ANSWER_BYTES))

    try:
        answer = broker.ask(
            first_messages.handshake(CLIENT_ID, login.mechanism), MAX_LOGIN_ANSWER_BYTES
        )
        first_messages.check_handshake(answer, login.mechanism)
        if login.mechanism is SaslMechanism.PLAIN:
            ask(first_messages.plain_message(login.username, login.password))
            return
        scram = _scram(login)
        scram.verify(ask(scram.final(ask(scram.first()))))
    except AuthenticationFailed as failed:
        raise NotLetIn(
            f"the broker does not prove that it knows the password: {failed}", "check the address"
        ) from failed
    except ConnectionResetError as error:
        raise NotLetIn(
            "it closed the connection instead of a login",
            "check security.protocol: the listener may have no login, or TLS",
        ) from error


def _scram(login: Login) -> ScramClient:
    """The client's side of SCRAM. Raises `NotLetIn` for a password that cannot be prepared."""
    nonce = new_nonce(token_bytes)
    try:
        return ScramClient(
            Mechanism(login.mechanism.value), login.username, saslprep(login.password), nonce
        )
    except ValueError as error:
        raise NotLetIn(f"the password cannot be used: {error}", "choose another one") from None
