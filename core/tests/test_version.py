"""There is one version."""

import re
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from chiplog_core.version import VERSION

CHECKOUT = Path(__file__).resolve().parents[2]
IMAGE = re.compile(r"chiplog/(?:broker|cli|operator|spark):(?P<version>\d+\.\d+\.\d+[.\w]*)")
WRITTEN = ("charts", "docs", "examples", "crds")
"""Folders whose texts name images that a reader is to have."""


def test_the_package_has_the_version_of_the_programs() -> None:
    assert ProjectMetadata(str(CHECKOUT), PluginManager()).version == VERSION


def test_images_are_named_by_this_version_wherever_a_version_is_named() -> None:
    texts = [CHECKOUT / "README.md"]
    for folder in WRITTEN:
        texts += [
            path for path in (CHECKOUT / folder).rglob("*") if path.suffix in {".md", ".yaml"}
        ]
    named = {
        (str(path.relative_to(CHECKOUT)), match["version"])
        for path in texts
        for match in IMAGE.finditer(path.read_text())
    }
    assert named, "no text names an image"
    assert {(path, version) for path, version in named if version != VERSION} == set()
