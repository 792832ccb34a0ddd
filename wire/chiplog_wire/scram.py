"""SCRAM (RFC 5802, RFC 7677): both ends prove that they know a password, and neither sends it.

These are state machines over bytes; the caller provides randomness. The server stores keys that are
derived from a password, never the password itself. The client verifies the server's signature, so
that another process at a broker's address learns nothing useful. Channel binding is refused: Kafka
has no mechanism with it.
"""

import hashlib
import hmac
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

ITERATIONS: Final = 4096
"""How often a new password is hashed. The minimum of RFC 7677 is sufficient, because passwords are
random."""

MIN_ITERATIONS: Final = 4096
# The server chooses the number of iterations, and the client hashes on its event loop.
MAX_ITERATIONS: Final = 100_000
_NONCE_BYTES: Final = 18
_MAX_MESSAGE_BYTES: Final = 4096
# The last message has four fields with Kafka's extension. Thousands of fields would take much more
# memory than their message.
_MAX_FIELDS: Final = 16


class Mechanism(Enum):
    """Kafka's SCRAM mechanisms, by their registered names."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """The name of the hash in `hashlib`."""
        return self.value.removeprefix("SCRAM-").replace("-", "").lower()


class AuthenticationFailed(Exception):  # noqa: N818 - a name for what happened
    """The other end did not prove its identity. The message contains none of its bytes, so it may
    be logged."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The keys that a server stores for one password."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The credential of one user. Several passwords are valid while one replaces the other."""

    salt: bytes
    iterations: int
    keys: Sequence[ScramKeys]


Find = Callable[[str], ScramCredential]


@lru_cache(maxsize=16)
def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's `SaltedPassword`; takes milliseconds, on purpose.

    The last ones are cached: a broker logs in to the same few brokers again and again, and has the
    password in memory anyway. Raises `ValueError` if that is not printable ASCII.
    """
    saslprep(password)
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def derived_keys(mechanism: Mechanism, salted: bytes) -> ScramKeys:
    """The keys that a server stores, from a salted password."""
    stored_key = hashlib.new(mechanism.hash_name, client_key(mechanism, salted)).digest()
    return ScramKeys(stored_key, mac(mechanism, salted, b"Server Key"))


def client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    return mac(mechanism, salted, b"Client Key")


def mac(mechanism: Mechanism, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, mechanism.hash_name)


def saslprep(text: str) -> str:
    """SASLprep (RFC 4013) of a name or password. Raises `ValueError`.

    Printable ASCII is unchanged. Kafka's clients do not implement the rest, so a password with
    other characters would work with some clients only.
    """
    if not text or not text.isascii() or not text.isprintable():
        raise ValueError("names and passwords must be printable ASCII and not empty")
    return text


def new_nonce(token: Callable[[int], bytes]) -> bytes:
    """A unique printable nonce. `token` returns as many random bytes as its argument says."""
    return b64encode(token(_NONCE_BYTES))


class ScramServer:
    """The server's half of one exchange: two messages in, two out."""

    def __init__(self, mechanism: Mechanism, find: Find, nonce: bytes) -> None:
        """`find` must return a credential for every name: otherwise clients learn which names
        exist."""
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._expects_first = True
        self._header = b""
        self._first_messages = b""
        self._credential: ScramCredential
        self.claimed_name = ""
        """The name that the client has given, proved or not; empty before that."""
        self.authenticated_as: str | None = None
        """The user's name once the client has proved that it knows the password."""

    def respond(self, message: bytes) -> bytes:
        """The answer to the client's next message. Raises `AuthenticationFailed`."""
        if self._expects_first:
            self._expects_first = False
            return self._first(message)
        if not self._first_messages:
            raise AuthenticationFailed("a message arrived after the last one")
        answer = self._final(message)
        self._first_messages = b""
        return answer

    def _first(self, message: bytes) -> bytes:
        """Answer the client's first message with the nonce, the salt and the iterations."""
        self._header, bare = split_header(message)
        fields = parse(bare)
        self.claimed_name = unescaped(expect(fields, 0, b"n"))
        check_authorization(self._header, self.claimed_name)
        self._nonce = expect(fields, 1, b"r") + self._nonce
        credential = self._credential = self._find(self.claimed_name)
        salt = b64encode(credential.salt)
        answer = b"r=%b,s=%b,i=%d" % (self._nonce, salt, credential.iterations)
        self._first_messages = b"%b,%b," % (bare, answer)
        return answer

    def _final(self, message: bytes) -> bytes:
        """Check the proof in the client's last message, and answer with the server's signature."""
        fields = parse(message)
        if decoded(expect(fields, 0, b"c")) != self._header:
            raise AuthenticationFailed("the channel binding differs from the first message's")
        if not hmac.compare_digest(expect(fields, 1, b"r"), self._nonce):
            raise AuthenticationFailed("the nonce is not that of this login")
        without_proof, separator, proof = message.rpartition(b",p=")
        if not separator or b"," in proof:
            raise AuthenticationFailed("a message does not end in its proof")
        exchanged = self._first_messages + without_proof
        proved_keys = self._keys_of(decoded(proof), exchanged)
        self.authenticated_as = self.claimed_name
        return b"v=" + b64encode(mac(self._mechanism, proved_keys.server_key, exchanged))

    def _keys_of(self, proof: bytes, exchanged: bytes) -> ScramKeys:
        """The keys of the password that the client has proved to know; `exchanged` are the messages
        that the proof signs. Raises `AuthenticationFailed`."""
        name = self._mechanism.hash_name
        for keys in self._credential.keys:
            signature = mac(self._mechanism, keys.stored_key, exchanged)
            if len(proof) == len(signature):
                # The proof is the client key XOR the signature; the stored key is the client key's
                # hash.
                proved_key = hashlib.new(name, xor(proof, signature)).digest()
                if hmac.compare_digest(proved_key, keys.stored_key):
                    return keys
        raise AuthenticationFailed("unknown user or wrong password")


class ScramClient:
    """The client's half: `first`, then `final`, then `verify`, in this order."""

    def __init__(self, mechanism: Mechanism, username: str, password: str, nonce: bytes) -> None:
        self.mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = b"n=%b,r=%b" % (escaped(saslprep(username)), self._nonce)
        self._signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return b"n,," + self._bare

    def final(self, server_first: bytes) -> bytes:
        """The client's final message with its proof, for the server's first message. Raises
        `AuthenticationFailed`."""
        fields = parse(server_first)
        nonce = expect(fields, 0, b"r")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server's nonce does not continue ours")
        salt, iterations = decoded(expect(fields, 1, b"s")), number(expect(fields, 2, b"i"))
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"the server requests {iterations} iterations; {MIN_ITERATIONS} to "
                f"{MAX_ITERATIONS} are allowed"
            )
        salted = salted_password(self.mechanism, self._password, salt, iterations)
        keys = derived_keys(self.mechanism, salted)
        without_proof = b"c=%b,r=%b" % (b64encode(b"n,,"), nonce)
        exchanged = b"%b,%b,%b" % (self._bare, server_first, without_proof)
        self._signature = mac(self.mechanism, keys.server_key, exchanged)
        signature = mac(self.mechanism, keys.stored_key, exchanged)
        proof = xor(client_key(self.mechanism, salted), signature)
        return b"%b,p=%b" % (without_proof, b64encode(proof))

    def verify(self, server_final: bytes) -> None:
        """Verify the signature in the server's final message. Raises `AuthenticationFailed` if the
        server does not know the password."""
        given = decoded(expect(parse(server_final), 0, b"v"))
        if not self._signature or not hmac.compare_digest(given, self._signature):
            raise AuthenticationFailed("the server's signature is wrong")


# -- the messages' grammar


def split_header(message: bytes) -> tuple[bytes, bytes]:
    """Split a client's first message into the GS2 header with its last comma, and the rest.

    Raises `AuthenticationFailed`, also for channel binding.
    """
    parts = message.split(b",", 2) if len(message) <= _MAX_MESSAGE_BYTES else []
    if len(parts) < 3:
        raise AuthenticationFailed("a message is malformed")
    binding, identity, bare = parts
    if binding not in (b"n", b"y"):
        raise AuthenticationFailed("channel binding is not supported")
    return b"%b,%b," % (binding, identity), bare


def check_authorization(header: bytes, username: str) -> None:
    """Raise `AuthenticationFailed` if the client requests to act as a user other than
    `username`."""
    identity = header.split(b",")[1]
    if identity and (not identity.startswith(b"a=") or unescaped(identity[2:]) != username):
        raise AuthenticationFailed("the client requests to act as another user")


def parse(message: bytes) -> list[tuple[bytes, bytes]]:
    """The (name, value) pairs of a message, without optional extensions. Raises
    `AuthenticationFailed`, also for a mandatory extension."""
    if len(message) > _MAX_MESSAGE_BYTES:
        raise AuthenticationFailed("a message is too long")
    fields: list[tuple[bytes, bytes]] = []
    parts = message.split(b",", _MAX_FIELDS)
    if len(parts) > _MAX_FIELDS:
        raise AuthenticationFailed("a message has too many fields")
    for part in parts:
        name, separator, value = part.partition(b"=")
        if len(name) != 1 or not separator:
            # Kafka's own extensions have longer names and stand last: they are optional.
            if len(fields) >= 2 and separator:
                continue
            raise AuthenticationFailed("a message is malformed")
        if name == b"m":
            raise AuthenticationFailed("a mandatory extension (m=) is not supported")
        if name == b"e":
            raise AuthenticationFailed("the server refused the login (e=)")
        fields.append((name, value))
    return fields


def expect(fields: list[tuple[bytes, bytes]], index: int, name: bytes) -> bytes:
    """The value of the field with this name, which must be at this index and not be empty. Raises
    `AuthenticationFailed`."""
    if index >= len(fields) or fields[index][0] != name or not fields[index][1]:
        raise AuthenticationFailed("a message is malformed")
    return fields[index][1]


def escaped(name: str) -> bytes:
    """A user name in a message: `=` and `,` have a meaning there."""
    return name.encode().replace(b"=", b"=3D").replace(b",", b"=2C")


def unescaped(name: bytes) -> str:
    """The user name from a message; the reverse of `escaped`. Raises `AuthenticationFailed`."""
    # Not split into parts: thousands of them take much more memory than the name.
    if name.count(b"=") != name.count(b"=2C") + name.count(b"=3D"):
        raise AuthenticationFailed("a name is malformed")
    try:
        return saslprep(name.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii"))
    except ValueError as error:
        raise AuthenticationFailed("a name is malformed") from error


def decoded(text: bytes) -> bytes:
    """Decodes base64. Raises `AuthenticationFailed`, also for another text than that of an encoder:
    the last character may have bits that no byte needs, and only one message is the right one."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except Base64Error as error:
        raise AuthenticationFailed("base64 is malformed") from error
    if b64encode(data) != text:
        raise AuthenticationFailed("base64 is malformed")
    return data


def number(text: bytes) -> int:
    """A positive number. Raises `AuthenticationFailed`."""
    if not text.isdigit() or len(text) > 9:
        raise AuthenticationFailed("a number is malformed")
    return int(text)


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
