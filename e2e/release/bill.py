"""The bill of materials of a release: the versions that its programs are locked to.

An image's bill (`e2e.cluster.sbom`) lists what is in it; a wheel holds nothing of others, so this
one lists what the images take for it, without the hashes and licenses of one platform's files.
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
    """The bill, as CycloneDX JSON; the same locks give the same text."""
    parts = {part.bom_ref.value: part for lock in locks for part in pinned(lock)}
    said = json.loads(sbom.document("chiplog", VERSION, parts.values()))
    said["metadata"]["component"]["type"] = ComponentType.APPLICATION.value
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def pinned(lock: Path) -> Iterator[sbom.Part]:
    """The Python packages that a lock names."""
    for name, version in PIN.findall(lock.read_text()):
        where = PackageURL(type="pypi", name=name, version=version)
        yield Component(
            type=ComponentType.LIBRARY,
            name=where.name,
            version=where.version,
            purl=where,
            bom_ref=where.to_string(),
        )
