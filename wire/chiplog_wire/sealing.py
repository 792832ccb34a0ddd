"""Encryption of what one process of a cluster hands to another through an object that more people
may read than may read Secrets.

The key is derived (HKDF with SHA-256, RFC 5869) from the cluster's internal secret, which is
random. The text is encrypted with AES-256-GCM, and bound to its place: a text that is copied to
another place, or changed, cannot be opened.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Final

PURPOSE: Final = b"chiplog-sealed-1"
NONCE_BYTES: Final = 12
"""A random one for each text: with 96 bits, some billion texts of one key are safe."""


class NotOpened(Exception):  # noqa: N818 - a name for what happened
    """The text was not sealed with one of the secrets, or not for this place."""


def seal(secret: str, place: Sequence[str], text: str, nonce: bytes) -> str:
    """The text, encrypted for one place, in base64. `nonce` are `NONCE_BYTES` random bytes."""
    assert len(nonce) == NONCE_BYTES, "a nonce of another length is not safe"
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - takes long

    sealed = AESGCM(_key(secret)).encrypt(nonce, text.encode(), _bound(place))
    return b64encode(nonce + sealed).decode()


def unseal(secrets: Iterable[str], place: Sequence[str], sealed: str) -> str:
    """The text that was sealed for this place with one of the secrets. Raises `NotOpened`, whose
    message has nothing of it."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - takes long
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        content = b64decode(sealed, validate=True)
    except ValueError as error:
        raise NotOpened("the text is not in base64") from error
    for secret in secrets:
        try:
            key = AESGCM(_key(secret))
            return key.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _bound(place)).decode()
        except (InvalidTag, ValueError):
            continue
    raise NotOpened("it was encrypted with another secret, or for another place")


def _key(secret: str) -> bytes:
    """The key that follows from the secret."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - takes long
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    if not secret:
        raise ValueError("an empty secret is known to everybody")
    return HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode())


def _bound(place: Sequence[str]) -> bytes:
    """The place as bytes: each part with its length, so that no two places are the same."""
    return b"".join(b"%d:%b," % (len(part.encode()), part.encode()) for part in place)
