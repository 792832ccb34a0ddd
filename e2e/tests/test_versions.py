"""Every program says which version it is, and it is the same one."""

import subprocess
import sys
import tomllib

import pytest

from chiplog_core.version import VERSION
from e2e.cluster.layout import CHECKOUT

SCRIPTS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
INSIDE_IMAGES = (
    "chiplog_operator.release_check",
    "chiplog_spark.jobs.export",
    "chiplog_spark.jobs.rebalance",
    "chiplog_spark.jobs.verify",
)
"""What starts as a module there."""


@pytest.mark.parametrize(
    "module", [*(one.partition(":")[0] for one in SCRIPTS.values()), *INSIDE_IMAGES]
)
def test_a_program_says_its_version(module: str) -> None:
    code = f"from {module} import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    name, version = said.stdout.split()
    assert name.startswith("chiplog")
    assert (version, said.stderr) == (VERSION, "")
