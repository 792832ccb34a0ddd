"""How Java programs are run here: Kafka's own, and the few written for the tests."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from e2e.cluster import layout
from e2e.cluster.cached import cached
from e2e.cluster.content import content_key
from e2e.cluster.shell import run
from e2e.kafka import debian
from e2e.kafka.jars import KAFKA, jars

# A tool runs for a second: compiling fully or starting collector threads does not pay.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def java(
    main_class: str,
    options: Sequence[str] = (),
    classes: Path | None = None,
    log: str = "error",
    pom: Path = KAFKA,
) -> list[str]:
    """The command that runs a class out of the pom's jars, or out of `classes` beside them.

    `log` is the level from which on Kafka's own log is printed, on standard error.
    """
    directories = [f"{jars(pom)}/*", *([str(classes)] if classes else [])]
    return [
        debian.program("java"),
        *options,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log}",
        *("-cp", ":".join(directories)),
        main_class,
    ]


@cache
def compiled(source: Path, pom: Path = KAFKA) -> Path:
    """The directory with the classes of one source file, or of all in a directory, compiled where
    they changed."""
    files = sorted(source.rglob("*.java")) if source.is_dir() else [source]
    directory = layout.cache() / "kafka" / f"{source.stem}-{content_key([source], str(jars(pom)))}"

    def compile_into(making: Path) -> None:
        run(
            debian.program("javac"),
            # Without the warnings about class files, paths, and annotations without a processor.
            *("-Xlint:all,-classfile,-path,-processing", "-Werror", "--release", "17"),
            *("-cp", f"{jars(pom)}/*", "-d", str(making), *map(str, files)),
        )

    return cached(directory, compile_into)
