"""The real API server, for all tests here, each of which takes namespaces of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api_servers.servers import Side, real_side, started
from e2e.loopback.api_server import ApiServer


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    directory: Path = tmp_path_factory.mktemp("api") / "server"
    with started(directory) as one:
        yield one


@pytest.fixture
def real(server: ApiServer) -> Iterator[Side]:
    with real_side(server) as one:
        yield one
