"""Asks Apache Kafka on loopback, and writes its answers over `kafka.json`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.kafka.broker import KafkaBroker
from e2e.security.matrix import SETTINGS, matrix
from e2e.security.recording import RECORDED, write


def main() -> None:
    with (
        TemporaryDirectory() as directory,
        KafkaBroker(Path(directory), settings=SETTINGS) as broker,
    ):
        found = matrix(broker)
    write(found)
    print(f"{len(found)} requests: {RECORDED}")


if __name__ == "__main__":
    main()
