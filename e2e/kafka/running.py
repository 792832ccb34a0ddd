"""Several processes that are started together and ended together."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Self


class Running(ABC):
    """A context manager: all processes run inside; leaving it closes `running`, which ends them."""

    def __init__(self) -> None:
        self.running = ExitStack()

    @abstractmethod
    def start(self) -> None:
        """Start everything; what fails to start is ended, too."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.running.close()
