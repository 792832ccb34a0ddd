"""Randomness."""

import secrets
from typing import Protocol


class Rng(Protocol):
    """Random bytes for ids that must not collide."""

    def token(self, size_bytes: int) -> bytes:
        """`size_bytes` unpredictable bytes."""


class SystemRng:
    """The kernel's generator."""

    def token(self, size_bytes: int) -> bytes:
        return secrets.token_bytes(size_bytes)
