"""The agent's own Go tests, with the toolchain and caches that build it."""

import pytest

from e2e.cluster import build

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


def test_go_tests_of_the_agent() -> None:
    # Vet reads the sources of all of Kubernetes, for minutes, to judge one small package.
    # With -trimpath, as it is built: without, Go compiles all of Kubernetes once more.
    printed = build.go("test", "-vet=off", "-trimpath", "./cmd/agent")
    # The first time, it tells before that what it downloads.
    assert printed.splitlines()[-1].startswith("ok"), printed
