"""`make demo` ends with exit status 0, and what it prints at the end works as it stands."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.helm import Helm
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.demo import cli, install, next_steps
from e2e.main.operator import Operator

# With the image of the Spark jobs, which is built where it is not there yet.
pytestmark = [pytest.mark.main, pytest.mark.timeout(2400)]
DEMO_LIMIT_S, STEPS_LIMIT_S = 1500, 900


@pytest.fixture
def nothing_stays(target: Target, operator: Operator) -> Iterator[None]:
    """The demo leaves its cluster running; a test does not."""
    yield
    Helm(target.kubeconfig, cli.NAMESPACE)("uninstall", install.RELEASE, "--ignore-not-found")
    Kubectl(target.kubeconfig, cli.NAMESPACE).delete_namespace()


@pytest.mark.usefixtures("nothing_stays")
def test_the_demo_and_everything_that_it_says_to_try_next(checkout: Path) -> None:
    printed = run([sys.executable, "-m", "e2e.demo"], checkout, DEMO_LIMIT_S)
    commands = to_copy(printed)
    assert commands[-1] == next_steps.END.lines, "the last one ends all, which others need"
    shown = run(["bash", "-eu", "-c", "\n".join(commands[:-1])], checkout, STEPS_LIMIT_S)
    assert "Produced 1 record to orders." in shown
    assert "verification.chiplog.dev/all-topics condition met" in shown
    assert "rebalance.chiplog.dev/even-load annotated" in shown
    led_before, leads_now = re.findall(r"^\d+@\d+$", shown, re.MULTILINE)
    assert led_before != leads_now, f"{led_before} still leads"


def to_copy(printed: str) -> list[str]:
    """The indented lines behind the last step, without what they are indented by."""
    return [
        line.removeprefix(next_steps.INDENT)
        for line in printed[printed.index(next_steps.BEGINNING) :].splitlines()
        if line.startswith(next_steps.INDENT)
    ]


def run(command: list[str], checkout: Path, limit_s: float) -> str:
    """What a program prints; prints it all where it does not end well."""
    done = subprocess.run(
        command,
        cwd=checkout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command[:3])} …: exit status {done.returncode}"
    return done.stdout
