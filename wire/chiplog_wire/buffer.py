"""The Python types that hold bytes."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
