"""A chart as an OCI archive: byte for byte what `helm push` gives a registry.

Helm itself pushes it, to a registry of one process on 127.0.0.1, and what arrived is written as
an image layout in a tar file. skopeo, oras and crane copy such a file to any registry.
https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from e2e.cluster import build
from e2e.cluster.shell import run
from e2e.release.registry import Blob, Registry

INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
LAYOUT: Final = {"imageLayoutVersion": "1.0.0"}
REFERENCE: Final = "org.opencontainers.image.ref.name"


def write(chart: Path, archive: Path) -> None:
    """Write a chart's directory as an archive. Raises `CommandFailed` with what helm said."""
    with TemporaryDirectory() as work, Registry() as registry:
        helm(work, "package", str(chart), "--destination", work)
        (package,) = Path(work).glob("*.tgz")
        helm(work, "push", str(package), f"oci://{registry.address}/charts", "--plain-http")
        tag = package.stem.removeprefix(f"{chart.name}-")
        manifest = registry.manifests[f"charts/{chart.name}:{tag}"]
        with tarfile.open(archive, "w") as tar:
            for name, content in _files(tag, manifest, registry.blobs):
                about = tarfile.TarInfo(name)
                about.size = len(content)
                about.mode = 0o644
                tar.addfile(about, io.BytesIO(content))


def helm(home: str, *arguments: str) -> str:
    """Run helm without the caller's logins, plugins and cache: all its files are in `home`."""
    own = {f"HELM_{name}_HOME": f"{home}/{name.lower()}" for name in ("CACHE", "CONFIG", "DATA")}
    return run(
        str(build.program("helm")),
        *arguments,
        env={"PATH": os.environ["PATH"], "HOME": home, **own},
    )


def _files(tag: str, manifest: Blob, blobs: Mapping[str, Blob]) -> Iterator[tuple[str, bytes]]:
    """The (name, content) pairs of an OCI image layout with one manifest."""
    entry = {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.content),
        "annotations": {REFERENCE: tag},
    }
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
    yield "oci-layout", json.dumps(LAYOUT).encode()
    yield "index.json", json.dumps(index).encode()
    for digest, one in sorted({**blobs, manifest.digest: manifest}.items()):
        yield f"blobs/{digest.replace(':', '/')}", one.content


def read(archive: Path, registry: Registry, name: str) -> str:
    """Put an archive into a registry, as a repository of that name; returns its tag."""
    with tarfile.open(archive) as tar:
        files = {one.name: _content(tar, one) for one in tar.getmembers()}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = Blob(entry["mediaType"], files[f"blobs/{entry['digest'].replace(':', '/')}"])
    listed = json.loads(manifest.content)
    for about in (listed["config"], *listed["layers"]):
        blob = Blob(about["mediaType"], files[f"blobs/{about['digest'].replace(':', '/')}"])
        registry.blobs[blob.digest] = blob
    tag = str(entry["annotations"][REFERENCE])
    registry.put(name, tag, manifest)
    return tag


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None, f"{member.name} is not a file"
    return file.read()
