"""Kafka's way to write a UUID: 16 bytes in URL-safe base64 without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID

_TEXT_LENGTH = 22


def format_uuid(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """Raises `ValueError` for anything that is not exactly one UUID."""
    if len(text) != _TEXT_LENGTH:
        raise ValueError(f"{text!r} is not a UUID")
    value = UUID(bytes=urlsafe_b64decode(text + "=="))
    if format_uuid(value) != text:
        raise ValueError(f"{text!r} is not a UUID")
    return value
