"""A Spring Boot application with a listener that Spring runs in transactions."""

from pathlib import Path
from typing import Final

from e2e.clients.first_hour.running import SPRING, Program
from e2e.kafka.java import SHORT_LIVED, compiled, java

SOURCES: Final = Path(__file__).with_name("sources") / "transfer"
POM: Final = SPRING / "pom.xml"
FAILS_EVERY: Final = 5
"""The listener fails at the first attempt for offsets 1, 6, 11 and so on."""
CRASHED: Final = 3
"""The exit status after a crash."""
NO_CRASH: Final = -1


def transfer(
    bootstrap: str, group: str, topics: tuple[str, str], crash_at: int = NO_CRASH
) -> Program:
    """The program `Transfer`, which runs until it is stopped, or to this offset of partition 0.

    `topics` are that of the input and that of the output; `group` is also the prefix of its
    transactional ids.
    """
    source, output = topics
    settings = {
        "input": source,
        "output": output,
        "fails-every": str(FAILS_EVERY),
        "crash-at": str(crash_at),
        "spring.kafka.bootstrap-servers": bootstrap,
        "spring.kafka.producer.transaction-id-prefix": f"{group}-",
        "spring.kafka.consumer.group-id": group,
        "spring.kafka.consumer.auto-offset-reset": "earliest",
        "spring.kafka.consumer.enable-auto-commit": "false",
        "spring.kafka.consumer.isolation-level": "read-committed",
        # The partitions of a program that crashed are free after this time; by default after 45 s.
        "spring.kafka.consumer.properties.session.timeout.ms": "6000",
        "spring.main.banner-mode": "off",
        "logging.level.root": "warn",
    }
    return Program(
        [
            *java("transfer.Transfer", SHORT_LIVED, compiled(SOURCES, POM), pom=POM),
            *(f"--{name}={value}" for name, value in settings.items()),
        ],
        bootstrap,
    )
