"""A real broker as a process of this machine, and the program as a function."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chiplog_cli.target import ENVIRONMENT
from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog, runs


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneBroker]:
    """A running broker. No test leaves it other than it was, but for topics of its own."""
    with StandaloneBroker(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture
def chiplog(broker: StandaloneBroker) -> Chiplog:
    """The program, beginning at the shared broker."""
    return runs({ENVIRONMENT: broker.bootstrap})


@pytest.fixture
def alone() -> Chiplog:
    """The program, told nothing by its environment."""
    return runs({})


@pytest.fixture
def topic(chiplog: Chiplog, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Creates topics named after the test, which are deleted with it."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made: list[str] = []

    def create(partitions: int = 1, **config: Any) -> str:
        made.append(f"{stem}-{len(made)}")
        options = [f"--config={key.replace('_', '.')}={value}" for key, value in config.items()]
        result = chiplog("topics", "create", made[-1], f"--partitions={partitions}", *options)
        assert result.stdout == f"Created topic {made[-1]}.\n", result.output
        return made[-1]

    yield create
    if made:
        chiplog("topics", "delete", "--if-exists", *made)
