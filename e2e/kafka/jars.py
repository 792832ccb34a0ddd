"""Jars from Maven Central into the cache, once per `pom.xml`: Apache Kafka's, and others.

Maven compares each with the checksum that lies beside it: who can change the one can change both.
So a `pom.sha256` beside a `pom.xml` names every jar with its SHA-256, as `sha256sum` writes it.
"""

import hashlib
from functools import cache
from pathlib import Path

from e2e.cluster import layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused, step
from e2e.cluster.content import content_key
from e2e.cluster.shell import run
from e2e.kafka import debian

KAFKA = Path(__file__).with_name("pom.xml")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@cache
def jars(pom: Path = KAFKA) -> Path:
    """The directory that holds every jar of the class path."""
    lock = pom.with_suffix(".sha256")
    sources = [pom, *([lock] if lock.exists() else [])]
    directory = layout.cache() / "kafka" / f"jars-{content_key(sources)}"
    return cached(directory, lambda making: fetch(pom, making))


def fetch(pom: Path, directory: Path) -> None:
    """Download the pom's jars into a directory.

    Raises `Refused` if their SHA-256 differ from those in the `pom.sha256` beside the pom.
    """
    with step(f"fetching the jars of {pom.relative_to(layout.CHECKOUT)} from Maven Central"):
        run(
            debian.program("mvn"),
            *("--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom)),
            f"-Dmaven.repo.local={layout.cache() / 'maven'}",
            *(COPY, "-DincludeScope=runtime", f"-DoutputDirectory={directory}"),
            timeout_s=900,
        )
    lock = pom.with_suffix(".sha256")
    if lock.exists() and (wrong := unlike(directory, lock.read_text())):
        raise Refused(
            f"these jars differ from {lock.relative_to(layout.CHECKOUT)}: {', '.join(wrong)}. If "
            "pom.xml was changed on purpose, write that file again: sha256sum *.jar"
        )


def unlike(directory: Path, lock: str) -> list[str]:
    """Names of jars whose SHA-256 differs from the lock's, or that only one of the two has.

    `lock` is the output of `sha256sum`: lines of a digest and a file name.
    """
    wanted = {name: digest for digest, name in map(str.split, lock.splitlines())}
    found = {path.name: sha256(path) for path in directory.iterdir()}
    all_names = wanted.keys() | found.keys()
    return sorted(name for name in all_names if wanted.get(name) != found.get(name))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
