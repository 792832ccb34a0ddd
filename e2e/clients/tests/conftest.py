"""Fixtures: a broker that all ordinary tests share, and one of its own for those that break it."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from e2e.clients.first_hour.lesson import Place
from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker. No test stops it or leaves it other than it was, but for topics."""
    with subject()(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture(scope="session")
def place(broker: BrokerProcess) -> Place:
    """The place where the tests of the first hour run here."""
    return Place(broker.bootstrap, replicas=1)


class NewBroker(Protocol):
    def __call__(
        self,
        *,
        home: Path | None = None,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> BrokerProcess: ...


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[NewBroker]:
    """Makes brokers, not started yet, that end with the test."""
    made: list[BrokerProcess] = []

    def make(
        *,
        home: Path | None = None,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> BrokerProcess:
        directory = tmp_path / f"broker-{len(made)}"
        made.append(subject()(directory, home=home, fsync=fsync, settings=settings))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def new_topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> Callable[[int], str]:
    """Creates a topic named after the test on the shared broker and returns its name."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")

    def create(partitions: int) -> str:
        create_topic(broker.bootstrap, stem, partitions)
        return stem

    return create
