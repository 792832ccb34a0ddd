"""The files of a release, each made from this checkout and from nothing else.

chiplog-VERSION-py3-none-any.whl, chiplog-VERSION.tar.gz   for pip
chiplog-operator-CHART.oci.tar, … one for each chart       for a registry
chiplog-crds-VERSION.yaml                                  for kubectl
chiplog-VERSION.cdx.json                                   what its programs are locked to
SHA256SUMS                                                 of all of these

CHART is the same version as Helm wants it: 0.1.0-dev.0 where Python has 0.1.0.dev0.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from charts.versions import CHARTS, chart_version
from chiplog_core.version import VERSION
from e2e.cluster import layout
from e2e.cluster.console import step
from e2e.cluster.shell import run
from e2e.release import bill, chart_archive

SUMS: Final = "SHA256SUMS"
WHEEL: Final = f"chiplog-{VERSION}-py3-none-any.whl"
SOURCES: Final = f"chiplog-{VERSION}.tar.gz"
DEFINITIONS: Final = f"chiplog-crds-{VERSION}.yaml"
BILL: Final = f"chiplog-{VERSION}.cdx.json"
LOCKS: Final = tuple(
    layout.CHECKOUT / "requirements" / f"{extra}.lock"
    for extra in ("broker", "cli", "operator", "spark")
)


def release(directory: Path) -> list[Path]:
    """Build all files of a release; an existing directory is replaced once all are built.

    Returns the files, sorted by name. Raises `CommandFailed` where a part does not build.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{directory.name}.", dir=directory.parent) as work:
        making = Path(work) / "files"
        making.mkdir()
        with step("building the wheel and the source archive"):
            python_packages(making)
        for chart in CHARTS:
            with step(f"packing the chart {chart}"):
                chart_archive.write(layout.CHECKOUT / "charts" / chart, making / archive(chart))
        with step("collecting definitions and the bill of materials"):
            (making / DEFINITIONS).write_text(definitions())
            (making / BILL).write_text(bill.document(LOCKS))
        (making / SUMS).write_text(checksums(making))
        shutil.rmtree(directory, ignore_errors=True)
        making.rename(directory)
    return sorted(directory.iterdir())


def archive(chart: str) -> str:
    """The file name of a chart's OCI archive."""
    return f"{chart}-{chart_version(VERSION)}.oci.tar"


def python_packages(
    directory: Path, sources: Path = layout.CHECKOUT, targets: Sequence[str] = ("sdist", "wheel")
) -> None:
    """Build the source archive, the wheel, or both."""
    for target in targets:
        run(
            *(sys.executable, "-m", "hatchling", "build", "--directory", str(directory)),
            *("--target", target),
            cwd=sources,
            # A fixed time (1980) in archives, so that the same sources give the same bytes.
            env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},
            timeout_s=300,
        )


def definitions() -> str:
    """All CustomResourceDefinitions as one file for `kubectl apply --server-side -f`."""
    files = sorted((layout.CHECKOUT / "crds").glob("*.yaml"))
    return "---\n".join(path.read_text() for path in files)


def checksums(directory: Path) -> str:
    """The SHA-256 and name of each file of a directory, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)
