"""`chiplog --version`."""

from typer.testing import CliRunner

from chiplog_cli.main import app
from chiplog_core.version import VERSION


def test_it_says_its_version_and_needs_no_cluster() -> None:
    found = CliRunner().invoke(app, ["--version"])
    assert (found.exit_code, found.output) == (0, f"chiplog {VERSION}\n")
