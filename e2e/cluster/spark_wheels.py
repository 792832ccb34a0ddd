"""The wheels of the Spark image. PySpark has no wheel on PyPI, only a source distribution.

Its source, which contains Spark's jars, is checked against the lock's hash, and a wheel is built
from it here. The image installs by a copy of the lock in which that wheel's hash replaces the
source's.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import images, layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused
from e2e.cluster.content import content_key
from e2e.cluster.shell import run

SOURCE_ONLY = "pyspark"
REQUIREMENTS = "requirements.txt"
"""File in the directory of the wheels: the requirements to install, with the wheels' hashes."""


def wheels(lock: Path) -> Path:
    """A directory with the wheels that a lock names, and `REQUIREMENTS`."""
    directory = layout.cache() / "wheels" / f"{lock.stem}-{content_key([lock, Path(__file__)])}"
    return cached(directory, lambda making: fill(making, entries(lock.read_text())))


def fill(directory: Path, locked: Mapping[str, str]) -> None:
    """Download the wheels, build that of PySpark, and write `REQUIREMENTS`.

    `locked` is name -> entry of the lock, as `entries` returns it.
    """
    requirements = directory / REQUIREMENTS
    requirements.write_text("".join(text for name, text in locked.items() if name != SOURCE_ONLY))
    images.download_wheels(requirements, directory)
    source = directory / "source.txt"
    source.write_text(locked[SOURCE_ONLY])
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--require-hashes", "--no-deps"),
        # With the setuptools of our own lock, not with the newest release.
        *("--no-build-isolation", "--wheel-dir", str(directory), "--requirement", str(source)),
        timeout_s=900,
    )
    source.unlink()
    (made,) = directory.glob(f"{SOURCE_ONLY}-*.whl")
    with requirements.open("a") as file:
        file.write(with_hash(locked[SOURCE_ONLY], sha256(made)))


def entries(lock: str) -> dict[str, str]:
    """Name -> entry of a lock: the requirement and its hashes, as they are written there."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if begun := re.match(r"([a-z0-9][a-z0-9._-]*)==", line):
            name = begun[1]
            found[name] = ""
        if name and line.strip() and not line.lstrip().startswith("#"):
            found[name] += line
    if SOURCE_ONLY not in found:
        raise Refused(
            f"the lock of the Spark image has no {SOURCE_ONLY}: write it again by `make lock`"
        )
    return found


def with_hash(entry: str, digest: str) -> str:
    """The entry's requirement with this SHA-256 in place of its hashes."""
    requirement = entry.split(maxsplit=1)[0]
    return f"{requirement} --hash=sha256:{digest}\n"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
