"""A bar on standard error for what takes long, if it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]
"""Called with the number of things that were done since the last call."""


@contextmanager
def progress(what: str, total: int | None = None, *, hidden: bool = False) -> Iterator[Advance]:
    """Show how much of `total` is done; only a count if `total` is None.

    Nothing is shown or imported if standard error is not a terminal, or if `hidden`, because the
    command reads from or prints on that terminal in the meantime.
    """
    if hidden or not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console  # noqa: PLC0415 - pipes and short commands need none
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda count: shown.advance(task, count)


def _unseen(_count: int) -> None:
    pass
