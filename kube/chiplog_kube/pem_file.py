"""Files of certificates and keys, which Python's `ssl` reads from a path only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile


@contextmanager
def pem_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content, while the context lasts. Raises `OSError`.

    On Linux it is on no disk, and needs no directory that can be written to. Elsewhere it has mode
    0600, and is deleted at the end.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with NamedTemporaryFile(suffix=".pem") as named:
            named.write(content)
            named.flush()
            yield named.name
