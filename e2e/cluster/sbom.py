"""The bill of materials of an image: every Debian package, wheel and jar in it, as CycloneDX JSON.

Made from what the image is built from, so it lies in the image itself: the wheels that pip installs
(each checked against the lock's hashes), what Debian's package manager says is installed, the jars
of Spark that are kept. The same content gives the same bytes.
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
"""Where it lies in an image."""

INSTALLED = "install ok installed"
SHORT = 60
"""A wheel's field License may be a name or a whole text; a text is no name."""


Part: TypeAlias = Component
"""One thing that is in an image."""


def document(name: str, tag: str, parts: Iterable[Part]) -> str:
    """The bill of an image, as text."""
    image = Component(type=ComponentType.CONTAINER, name=name, version=tag, bom_ref=f"{name}@{tag}")
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"{name}:{tag}"),
        metadata=BomMetaData(component=image),
        components=parts,
    )
    bom.register_dependency(image, bom.components)
    said = json.loads(JsonV1Dot6(bom).output_as_string())
    # The same content is the same image, whenever it is made.
    del said["metadata"]["timestamp"]
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def chiplog(version: str) -> Part:
    """Our own packages."""
    return Component(
        type=ComponentType.APPLICATION,
        name="chiplog",
        version=version,
        bom_ref=f"chiplog@{version}",
        licenses=[LicenseFactory().make_from_string(LICENSE)],
    )


def debian_packages(status: str, release: str) -> Iterator[Part]:
    """What is installed by dpkg's own list; `release` is Debian's name, like bookworm."""
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
    """The Python packages that are installed from a directory."""
    for path in sorted(directory.glob("*.whl")):
        said = _metadata(path)
        where = PackageURL(type="pypi", name=said["Name"], version=said["Version"])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield _library(where, digest, _license(said))


def jars_of_wheel(directory: Path, wheel: str, unused: Sequence[str]) -> Iterator[Part]:
    """The jars in the one wheel of that name; `unused` are patterns of what is taken away."""
    (path,) = directory.glob(f"{wheel}-*.whl")
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".jar") and not _is_matched(name, unused):
                yield _jar(Path(name).name, archive.read(name))


def _is_matched(name: str, patterns: Sequence[str]) -> bool:
    """A pattern names a file, or a directory with all that is in it."""
    return any(
        fnmatch.fnmatch(name, one) for pattern in patterns for one in (pattern, f"{pattern}/*")
    )


def jars(directory: Path) -> Iterator[Part]:
    """The jars in a directory."""
    for path in sorted(directory.glob("*.jar")):
        yield _jar(path.name, path.read_bytes())


def _jar(file_name: str, content: bytes) -> Part:
    """The jar's component, by the Maven coordinates that it carries, else by its name; a group is
    not guessed."""
    stem = file_name.removesuffix(".jar")
    return _library(
        _coordinates(stem, content) or _named(stem), hashlib.sha256(content).hexdigest()
    )


def _coordinates(stem: str, content: bytes) -> PackageURL | None:
    """What of the pom.properties in a jar names the jar itself: others are of what it swallowed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.startswith("META-INF/maven/") and name.endswith("/pom.properties"):
                lines = archive.read(name).decode().splitlines()
                said = dict(line.split("=", 1) for line in lines if "=" in line)
                group, artifact, version = map(said.get, ("groupId", "artifactId", "version"))
                if stem == f"{artifact}-{version}":
                    return PackageURL("maven", group, artifact, version)
    return None


def _named(stem: str) -> PackageURL:
    words = stem.split("-")
    first = next((i for i, word in enumerate(words) if i and word[:1].isdigit()), len(words))
    version = "-".join(words[first:]) or None
    return PackageURL("generic", name="-".join(words[:first]), version=version)


def _library(where: PackageURL, sha256: str | None = None, license_: str | None = None) -> Part:
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
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def _license(said: email.message.Message) -> str | None:
    """What a wheel says of its license: an SPDX expression, or else a name."""
    names = [
        str(one).rpartition(" :: ")[2]
        for one in said.get_all("Classifier", ())
        if str(one).startswith("License :: OSI Approved :: ")
    ]
    own = str(said.get("License", "")).strip()
    if "License-Expression" in said:
        return str(said["License-Expression"])
    if own and len(own) <= SHORT:
        return own
    return " / ".join(names) or None
