"""Long work in short steps, so that the caller can do something else between them.

A generator yields None after each step of well below a millisecond, and a call where something is
to be done that takes longer and may be done in another thread; it is sent what that returns.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.005
"""So long work goes on at a time on the event loop, before others have their turn."""

Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]


def at_once(steps: Steps[T]) -> T:
    """All steps, one right after the other."""
    done: Any = None
    try:
        while True:
            call = steps.send(done)
            done = None
            if call is not None:
                try:
                    done = call()
                except Exception as failed:  # noqa: BLE001 - it is for the steps to judge
                    call = steps.throw(failed)
                    assert call is None, "no call right after one that failed"
    except StopIteration as end:
        result: T = end.value
        return result
