"""There is one version."""

import tomllib
from pathlib import Path

from chiplog_core.version import VERSION

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_programs_have_the_version_of_the_project() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
