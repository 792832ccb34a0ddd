"""A base class for work that a thread does while a `with` block runs."""

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self


@dataclass
class Background(ABC):
    """Runs `run` in a thread while a `with` block runs; the block's end waits for the thread."""

    ends_within_s: ClassVar[float] = 120
    """How long, at most, the block's end waits for the thread."""
    ending: threading.Event = field(default_factory=threading.Event, init=False)
    thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def run(self) -> None:
        """Do the work until `ending` is set."""

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.ending.set()
        if self.thread is not None:
            self.thread.join(self.ends_within_s)
