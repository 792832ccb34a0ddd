"""The file system operations that an export needs; `hadoop` implements them for all of Spark's."""

from collections.abc import Mapping
from typing import Protocol


class Files(Protocol):
    """Paths are complete, with a scheme. A directory exists as soon as it contains something."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory; empty if it does not exist."""

    def tree(self, directory: str) -> Mapping[str, int]:
        """All files below a directory: relative path -> size in bytes."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory with this path."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def create(self, path: str, text: str) -> bool:
        """Create a file with this text, completely or not at all. Returns False if it exists."""

    def move(self, source: str, destination: str) -> None:
        """Rename a file: readers of the new name see all of it or no file. Raises `OSError`."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; does nothing if there is none."""
