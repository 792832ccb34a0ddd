"""What is made once and kept by content: by one process at a time, whole or not at all."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(folder: Path, make: Callable[[Path], object]) -> Path:
    """`folder`, which `make` fills first where it is not there yet.

    `make` gets an empty folder beside it, which gets the final name once it is whole. Others that
    want the same wait for it and do not make it a second time. What a process that was ended left
    behind is in nobody's way.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            try:
                make(making)
                making.chmod(0o755)  # mkdtemp keeps others out, a kept folder does not
                making.rename(folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return folder
