"""Long work in short steps, so that the caller can do other work between them.

A generator yields None after each step, which takes well below a millisecond. If a step takes
longer and may run in another thread, it yields a function: the caller calls it and sends its result
to the generator.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]


def run_steps(steps: Steps[T]) -> T:
    """Run all steps without a break and return the generator's result.

    The functions that it yields are called here, and it gets their results or exceptions.
    """
    done: Any = None
    try:
        while True:
            call = steps.send(done)
            done = None
            if call is not None:
                try:
                    done = call()
                except Exception as failed:  # noqa: BLE001 - the generator decides what a failure means
                    call = steps.throw(failed)
                    assert call is None, "a generator must not yield a function after a failed one"
    except StopIteration as end:
        result: T = end.value
        return result
