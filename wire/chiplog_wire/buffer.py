"""Bytes, in whichever of Python's types they come."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
