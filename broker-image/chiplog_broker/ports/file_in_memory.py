"""Files that are on no disk, for functions that read from a path only. Linux has them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """The path of a file with this content that is on no disk, while the context lasts. Raises
    `OSError`."""
    descriptor = os.memfd_create("chiplog")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"
