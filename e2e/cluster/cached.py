"""Directories that are made once and then reused, by one process at a time, completely or not at
all."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(directory: Path, make: Callable[[Path], object]) -> Path:
    """Return `directory`; if it does not exist yet, `make` fills it first.

    `make` gets an empty temporary directory next to it, which is renamed once it is complete.
    Other processes that need the same directory wait on a lock instead of making it again. The
    leftovers of a killed process have another name and do no harm.
    """
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            making = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
            try:
                make(making)
                making.chmod(0o755)  # mkdtemp makes it private; all users may read the cache
                making.rename(directory)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return directory
