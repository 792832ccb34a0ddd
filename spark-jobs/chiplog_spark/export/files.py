"""What an export needs of a file system; `hadoop` fulfils it for every one that Spark knows."""

from collections.abc import Mapping
from typing import Protocol


class Files(Protocol):
    """Paths are whole, with a scheme. A folder is there as soon as something is put into it."""

    def names(self, directory: str) -> list[str]:
        """What lies in a folder, by name; empty where there is no such folder."""

    def tree(self, directory: str) -> Mapping[str, int]:
        """All files below a folder: path relative to it -> size in bytes."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def create(self, path: str, text: str) -> bool:
        """Make a file with this text: all of it, or none. False where there is one already."""

    def move(self, source: str, destination: str) -> None:
        """Give a file another name, under which it is whole or not there. Raises `OSError`."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder and all in it. Nothing happens where there is none."""
