"""The files of the charts that contain the version: `Chart.yaml`, and the example with an image."""

import re
from collections.abc import Mapping
from pathlib import Path

from chiplog_core.version import VERSION

FOLDER = Path(__file__).resolve().parent
CHARTS = ("chiplog-cluster", "chiplog-monitoring", "chiplog-operator")
PINNED = Path("chiplog-cluster", "examples", "environments", "production.yaml")

PEP_440 = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?:\.?(?P<kind>dev|rc)(?P<number>\d+))?")


def chart_version(version: str) -> str:
    """A Python version as Helm needs it, which is SemVer: 0.1.0-dev.0 for 0.1.0.dev0.

    Raises `ValueError` for a version that is neither a release nor a `dev` or `rc` before one:
    local versions and post-releases have no SemVer counterpart with the same order.
    """
    match = PEP_440.fullmatch(version)
    if match is None:
        raise ValueError(f"{version} is not X.Y.Z, X.Y.Z.devN or X.Y.ZrcN")
    if match["kind"] is None:
        return match["release"]
    return f"{match['release']}-{match['kind']}.{match['number']}"


def files() -> Mapping[Path, str]:
    """The files that contain the version, with the current one, by their path in this directory."""
    about = {Path(chart, "Chart.yaml"): _about(chart) for chart in CHARTS}
    pinned = (FOLDER / PINNED).read_text()
    return {**about, PINNED: _replaced(r"(?<=image: chiplog/broker:)\S+", VERSION, pinned)}


def _about(chart: str) -> str:
    """The `Chart.yaml` of a chart, with the current version."""
    text = (FOLDER / chart / "Chart.yaml").read_text()
    text = _replaced(r"(?m)(?<=^version: ).*$", chart_version(VERSION), text)
    return _replaced(r"(?m)(?<=^appVersion: ).*$", VERSION, text)


def _replaced(pattern: str, version: str, text: str) -> str:
    """The text with the version in place of the pattern's only match."""
    new, count = re.subn(pattern, version, text)
    assert count == 1, f"the file has {count} matches of {pattern}, not 1"
    return new
