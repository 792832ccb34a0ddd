"""The bill of materials of a release: the package versions that its lock files pin.

A wheel contains no other packages. So this bill lists those that the images install beside it,
without hashes and licenses, which differ between platforms. For images see `e2e.cluster.sbom`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cyclonedx.model.component import Component, ComponentType
from packageurl import PackageURL

from chiplog_core.version import VERSION
from e2e.cluster import sbom

PIN: Final = re.compile(r"(?m)^([\w.-]+)==([^\s;\\]+)")


def document(locks: Iterable[Path]) -> str:
    """The bill of these lock files as CycloneDX JSON; the same files give the same text."""
    parts = {part.bom_ref.value: part for lock in locks for part in pinned(lock)}
    said = json.loads(sbom.document("chiplog", VERSION, parts.values()))
    said["metadata"]["component"]["type"] = ComponentType.APPLICATION.value
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def pinned(lock: Path) -> Iterator[sbom.Part]:
    """A component for each Python package that a lock file pins as `name==version`."""
    for name, version in PIN.findall(lock.read_text()):
        where = PackageURL(type="pypi", name=name, version=version)
        yield Component(
            type=ComponentType.LIBRARY,
            name=where.name,
            version=where.version,
            purl=where,
            bom_ref=where.to_string(),
        )
