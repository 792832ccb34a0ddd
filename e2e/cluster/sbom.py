"""The bill of materials of an image: all its Debian packages, wheels and jars, as CycloneDX JSON.

It is made from the sources of the image, and so can be part of the image: the wheels that pip
installs (each checked against the lock's hashes), the packages in dpkg's status file, and the jars
of Spark that are not deleted. Equal content gives equal bytes.
"""

import email
import email.message
import fnmatch
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from e2e.cluster.image_labels import LICENSE

FILE_NAME = "sbom.cdx.json"
PATH = f"usr/share/chiplog/{FILE_NAME}"
"""The path of the bill in an image, relative to its root."""

INSTALLED = "install ok installed"
SHORT = 60
"""Longest license name. A wheel's field License may also contain the whole license text."""


Part: TypeAlias = Component
"""One component of an image: a package, wheel or jar."""


def document(name: str, tag: str, parts: Iterable[Part]) -> str:
    """The bill of materials of an image, as JSON text."""
    image = Component(type=ComponentType.CONTAINER, name=name, version=tag, bom_ref=f"{name}@{tag}")
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"{name}:{tag}"),
        metadata=BomMetaData(component=image),
        components=parts,
    )
    bom.register_dependency(image, bom.components)
    content = json.loads(JsonV1Dot6(bom).output_as_string())
    # Without the time: equal content must give an equal image.
    del content["metadata"]["timestamp"]
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def chiplog(version: str) -> Part:
    """The component that stands for Chiplog's own packages."""
    return Component(
        type=ComponentType.APPLICATION,
        name="chiplog",
        version=version,
        bom_ref=f"chiplog@{version}",
        licenses=[LicenseFactory().make_from_string(LICENSE)],
    )


def debian_packages(status: str, release: str) -> Iterator[Part]:
    """The installed packages; `status` is the text of dpkg's status file, `release` like
    bookworm."""
    for stanza in status.split("\n\n"):
        fields = email.message_from_string(stanza.strip())
        if fields["Status"] == INSTALLED:
            where = PackageURL(
                type="deb",
                namespace="debian",
                name=fields["Package"],
                version=fields["Version"],
                qualifiers={"arch": fields["Architecture"], "distro": release},
            )
            yield _library(where)


def wheels(directory: Path) -> Iterator[Part]:
    """The Python packages of all wheels in a directory."""
    for path in sorted(directory.glob("*.whl")):
        metadata = _metadata(path)
        where = PackageURL(type="pypi", name=metadata["Name"], version=metadata["Version"])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield _library(where, digest, _license(metadata))


def jars_of_wheel(directory: Path, wheel: str, unused: Sequence[str]) -> Iterator[Part]:
    """The jars in the wheel of this name, without those that match the patterns `unused`."""
    (path,) = directory.glob(f"{wheel}-*.whl")
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".jar") and not _is_matched(name, unused):
                yield _jar(Path(name).name, archive.read(name))


def _is_matched(name: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern, or lies in a directory that matches one."""
    return any(
        fnmatch.fnmatch(name, one) for pattern in patterns for one in (pattern, f"{pattern}/*")
    )


def jars(directory: Path) -> Iterator[Part]:
    """The jars in a directory."""
    for path in sorted(directory.glob("*.jar")):
        yield _jar(path.name, path.read_bytes())


def _jar(file_name: str, content: bytes) -> Part:
    """The jar's component, by its Maven coordinates; if it contains none, by its file name.

    A file name has no Maven group, and none is guessed.
    """
    stem = file_name.removesuffix(".jar")
    return _library(
        _coordinates(stem, content) or _named(stem), hashlib.sha256(content).hexdigest()
    )


def _coordinates(stem: str, content: bytes) -> PackageURL | None:
    """The Maven coordinates of a jar, from the pom.properties that matches its file name.

    Further pom.properties are of libraries that are bundled in the jar. None if no file matches.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.startswith("META-INF/maven/") and name.endswith("/pom.properties"):
                lines = archive.read(name).decode().splitlines()
                properties = dict(line.split("=", 1) for line in lines if "=" in line)
                group, artifact, version = map(properties.get, ("groupId", "artifactId", "version"))
                if stem == f"{artifact}-{version}":
                    return PackageURL("maven", group, artifact, version)
    return None


def _named(stem: str) -> PackageURL:
    """Name and version from a jar's file name: the version begins with the first digit after a
    "-"."""
    words = stem.split("-")
    first = next((i for i, word in enumerate(words) if i and word[:1].isdigit()), len(words))
    version = "-".join(words[first:]) or None
    return PackageURL("generic", name="-".join(words[:first]), version=version)


def _library(where: PackageURL, sha256: str | None = None, license_: str | None = None) -> Part:
    """A component of the bill of materials, identified by its package URL."""
    return Component(
        type=ComponentType.LIBRARY,
        name=where.name,
        version=where.version,
        purl=where,
        bom_ref=where.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else (),
        licenses=[LicenseFactory().make_from_string(license_)] if license_ else (),
    )


def _metadata(wheel: Path) -> email.message.Message:
    """The METADATA file of a wheel, parsed."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def _license(metadata: email.message.Message) -> str | None:
    """A wheel's license: its SPDX expression, else its short License field, else its
    classifiers."""
    names = [
        str(one).rpartition(" :: ")[2]
        for one in metadata.get_all("Classifier", ())
        if str(one).startswith("License :: OSI Approved :: ")
    ]
    own = str(metadata.get("License", "")).strip()
    if "License-Expression" in metadata:
        return str(metadata["License-Expression"])
    if own and len(own) <= SHORT:
        return own
    return " / ".join(names) or None
