"""The first requests on a connection, and their answers, as bytes.

librdkafka sends its own. These are for the connections that this program makes itself: to find out
why a broker does not let it in, which librdkafka does not report, and for requests that librdkafka
does not have. The versions are old ones that every broker supports.
"""

import struct
from collections.abc import Iterable

from chiplog_cli.errors import NotLetIn

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36
NO_ERROR = 0
TLS_ALERT = 0x15
"""The first byte that a TLS server sends to somebody who does not speak TLS (RFC 8446, 5.1)."""


def request(key: int, version: int, client_id: str, body: bytes = b"") -> bytes:
    """A request with its length. `version` must not be a flexible one (KIP-482)."""
    header = struct.pack(">hhi", key, version, 0) + _text(client_id)
    return struct.pack(">i", len(header) + len(body)) + header + body


def greetings(client_id: str) -> bytes:
    """Two requests: for the API versions, which brokers answer to everybody, and for the brokers,
    which they do not answer before a login."""
    no_topics = struct.pack(">i", 0)
    return request(API_VERSIONS, 0, client_id) + request(METADATA, 1, client_id, no_topics)


def handshake(client_id: str, mechanism: str) -> bytes:
    """The request that chooses the mechanism."""
    return request(SASL_HANDSHAKE, 1, client_id, _text(mechanism))


def authenticate(client_id: str, token: bytes) -> bytes:
    """The request with a message of the mechanism."""
    return request(SASL_AUTHENTICATE, 0, client_id, struct.pack(">i", len(token)) + token)


def plain_message(username: str, password: str) -> bytes:
    """The only message of PLAIN (RFC 4616)."""
    return b"\0".join((b"", username.encode(), password.encode()))


def bearer_message(token: str, extensions: Iterable[tuple[str, str]]) -> bytes:
    """The first message of OAUTHBEARER (RFC 7628, section 3.1)."""
    pairs = [("auth", f"Bearer {token}"), *extensions]
    return "\x01".join(("n,,", *(f"{name}={value}" for name, value in pairs), "", "")).encode()


BEARER_REFUSED = b"\x01"
"""The client's answer to the message with the reason why a token is refused."""


def check_handshake(answer: bytes, mechanism: str) -> None:
    """Raises `NotLetIn` if the broker does not have the mechanism, and `ValueError` if this is
    no such answer."""
    try:
        (code, count), at = struct.unpack_from(">hi", answer, 4), 10
        names = []
        for _ in range(count):
            name, at = _text_at(answer, at)
            names.append(name)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError("the answer to SaslHandshake cannot be parsed") from error
    if code != NO_ERROR and not names:
        raise NotLetIn(
            "the listener has no login", "set security.protocol to SSL, or to PLAINTEXT without TLS"
        )
    if code != NO_ERROR:
        offered = ", ".join(map(str, names))
        raise NotLetIn(f"it has no sasl.mechanism {mechanism}", f"set it to one of {offered}")


def message_in(answer: bytes, remedy: str) -> bytes:
    """The broker's message of the mechanism in the answer to `authenticate`. Raises `NotLetIn`,
    with this remedy, if it does not accept the credentials, and `ValueError` if this is no such
    answer."""
    try:
        (code,) = struct.unpack_from(">h", answer, 4)
        why, at = _text_at(answer, 6)
        (size,) = struct.unpack_from(">i", answer, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError("the answer to SaslAuthenticate cannot be parsed") from error
    if code != NO_ERROR:
        raise NotLetIn(f"the login failed: {why or f'error {code}'}", remedy)
    return answer[at + 4 : at + 4 + max(size, 0)]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _text_at(data: bytes, at: int) -> tuple[str | None, int]:
    """The text at this place, None for a null one, and where it ends."""
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    if end > len(data):
        raise struct.error("the text is longer than the answer")
    return (None if size < 0 else data[at + 2 : end].decode()), end
