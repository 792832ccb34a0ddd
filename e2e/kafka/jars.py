"""Jars from Maven Central into the cache, once per `pom.xml`: Apache Kafka's, and others."""

import os
import shutil
from functools import cache
from pathlib import Path

from e2e.cluster import layout
from e2e.cluster.console import step
from e2e.cluster.content import content_key
from e2e.cluster.shell import run
from e2e.kafka import debian

KAFKA = Path(__file__).with_name("pom.xml")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@cache
def jars(pom: Path = KAFKA) -> Path:
    """The folder that holds every jar of the class path."""
    folder = layout.cache() / "kafka" / f"jars-{content_key([pom])}"
    if not folder.exists():
        with step(f"fetching the jars of {pom.relative_to(layout.CHECKOUT)} from Maven Central"):
            fetch(pom, folder)
    return folder


def fetch(pom: Path, folder: Path) -> None:
    """Resolve the pom beside the final place, then move it there whole."""
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    run(
        debian.program("mvn"),
        *("--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom)),
        f"-Dmaven.repo.local={layout.cache() / 'maven'}",
        *(COPY, "-DincludeScope=runtime", f"-DoutputDirectory={making}"),
        timeout_s=900,
    )
    if folder.exists():  # another checkout was quicker
        shutil.rmtree(making)
    else:
        making.rename(folder)
