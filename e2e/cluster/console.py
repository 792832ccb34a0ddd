"""The output for people while the cluster is built, started and stopped.

On a terminal each step is a line with a spinner; elsewhere (CI) a step prints one line when it
ends. Code that cannot do its work on this machine raises `Refused`: commands print its text and
exit with status 2.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

console = Console(highlight=False, soft_wrap=True)


class Refused(Exception):  # noqa: N818 - read as "Refused: port 6443 is taken by …"
    """This machine or call cannot do what was asked; the text says why and what would work."""


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show `title` while the block runs, then how long it took.

    If the block fails, the title is printed, too: a traceback follows, and the title says of what.
    """
    started_s = time.monotonic()
    try:
        if console.is_terminal:
            with console.status(title):
                yield
        else:
            yield
    except BaseException:
        console.print(f"[red]✗[/] {title} ({time.monotonic() - started_s:.1f} s)")
        raise
    console.print(f"[green]✓[/] {title} ({time.monotonic() - started_s:.1f} s)")
