"""The agent's own Go tests, with the toolchain and caches that build it."""

import pytest

from e2e.cluster import build

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


def test_go_tests_of_the_agent() -> None:
    printed = build.go("test", "./cmd/agent")
    # The first time, it tells before that what it downloads.
    assert printed.splitlines()[-1].startswith("ok"), printed
