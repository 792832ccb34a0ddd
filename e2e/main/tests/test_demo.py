"""`make demo` ends with exit status 0, and its last lines are all a user needs to go on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.helm import Helm
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.demo import cli, install
from e2e.main.cluster_metadata import told
from e2e.main.operator import Operator

pytestmark = [pytest.mark.main, pytest.mark.timeout(600)]


@pytest.fixture
def nothing_stays(target: Target, operator: Operator) -> Iterator[None]:
    """The demo leaves its cluster running; a test does not."""
    yield
    Helm(target.kubeconfig, cli.NAMESPACE)("uninstall", install.RELEASE, "--ignore-not-found")
    Kubectl(target.kubeconfig, cli.NAMESPACE).delete_namespace()


@pytest.mark.usefixtures("nothing_stays")
def test_the_demo_ends_with_an_address_that_answers(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "e2e.demo"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0
    *_, bootstrap, kubeconfig = done.stdout.splitlines()
    assert Path(kubeconfig.removeprefix("kubeconfig: ")).exists()
    answer = told(bootstrap.removeprefix("bootstrap: "))
    assert sorted(answer.brokers) == [1, 2, 3]
    assert answer.is_whole("orders", 6)
