"""Bills of materials and labels, as they are made from files: no image is built for these."""

import io
import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import image_labels, images, layout, sbom

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Contains more lines.

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: ca-certificates
Status: install ok installed
Architecture: all
Version: 20230311+deb12u1
"""


def wheel(directory: Path, name: str, metadata: str, files: dict[str, bytes] | None = None) -> None:
    project, version, *_ = name.split("-")
    with zipfile.ZipFile(directory / name, "w") as archive:
        written = f"Name: {project}\nVersion: {version}\n{metadata}"
        archive.writestr(f"{project}-{version}.dist-info/METADATA", written)
        for path, content in (files or {}).items():
            archive.writestr(path, content)


def jar(*coordinates: tuple[str, str, str]) -> bytes:
    """One with the pom.properties of these groups, artifacts and versions."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for group, artifact, version in coordinates:
            said = f"# made\ngroupId={group}\nartifactId={artifact}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", said)
    return content.getvalue()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    wheel(tmp_path, "Typed_Ext-4.16.0-py3-none-any.whl", "License-Expression: PSF-2.0\n")
    wheel(tmp_path, "old-1.0-py3-none-any.whl", "License: BSD\n")
    wheel(
        tmp_path,
        "older-1.0.post1-py3-none-any.whl",
        "License: " + "all of it " * 20 + "\nClassifier: License :: OSI Approved :: MIT License\n",
    )
    wheel(
        tmp_path,
        "pyspark-4.2.0-py2.py3-none-any.whl",
        "",
        {
            "pyspark/jars/kept-core_2.13-1.2.jar": jar(),
            "pyspark/jars/swallows-7.jar": jar(("a", "b", "1"), ("org.told", "swallows", "7")),
            "pyspark/jars/hive-cli-3.jar": b"not kept",
            "pyspark/jars/repl/inside-1.jar": b"not kept either",
            "pyspark/notes.txt": b"no jar",
        },
    )
    return tmp_path


def bill(*parts: Any) -> Any:
    return json.loads(sbom.document("chiplog/broker", "1-abc", parts))


def test_debian_packages_are_those_that_are_installed() -> None:
    said = bill(*sbom.debian_packages(STATUS, "bookworm"))
    assert {one["purl"] for one in said["components"]} == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=bookworm",
        "pkg:deb/debian/ca-certificates@20230311%2Bdeb12u1?arch=all&distro=bookworm",
    }


def test_wheels_have_name_version_hash_and_license(directory: Path) -> None:
    said = {one["name"]: one for one in bill(*sbom.wheels(directory))["components"]}
    assert said["typed-ext"]["purl"] == "pkg:pypi/typed-ext@4.16.0"
    assert said["typed-ext"]["licenses"] == [
        {"license": {"acknowledgement": "declared", "id": "PSF-2.0"}}
    ] or said["typed-ext"]["licenses"] == [{"license": {"id": "PSF-2.0"}}]
    assert said["old"]["licenses"] == [{"license": {"name": "BSD"}}]
    assert said["older"]["licenses"] == [{"license": {"name": "MIT License"}}]
    assert said["older"]["version"] == "1.0.post1"
    for one in said.values():
        ((kind, value),) = [(h["alg"], h["content"]) for h in one["hashes"]]
        assert kind == "SHA-256"
        assert len(value) == 64


def test_jars_are_those_that_are_kept(directory: Path) -> None:
    unused = ["pyspark/jars/hive-cli*", "pyspark/jars/repl"]
    said = bill(*sbom.jars_of_wheel(directory, "pyspark", unused))["components"]
    assert [one["purl"] for one in said] == [
        "pkg:generic/kept-core_2.13@1.2",
        "pkg:maven/org.told/swallows@7",
    ]
    (directory / "delta-spark_2.13-4.4.0.jar").write_bytes(jar())
    (delta,) = bill(*sbom.jars(directory))["components"]
    assert delta["purl"] == "pkg:generic/delta-spark_2.13@4.4.0"


def test_the_bill_is_of_the_image_and_names_everything_it_needs(directory: Path) -> None:
    said = bill(sbom.chiplog("0.1.0"), *sbom.wheels(directory))
    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.6")
    image = said["metadata"]["component"]
    assert (image["type"], image["name"], image["version"]) == (
        "container",
        "chiplog/broker",
        "1-abc",
    )
    needs = {one["ref"]: set(one.get("dependsOn", ())) for one in said["dependencies"]}
    assert needs[image["bom-ref"]] == {one["bom-ref"] for one in said["components"]}
    assert len(said["components"]) == 5


def test_the_same_content_gives_the_same_bytes(directory: Path) -> None:
    def made(tag: str) -> str:
        parts = [*sbom.debian_packages(STATUS, "bookworm"), *sbom.wheels(directory)]
        return sbom.document("chiplog/broker", tag, reversed(parts) if tag == "2" else parts)

    assert made("1") == made("1")
    assert "timestamp" not in made("1")
    first, second = (json.loads(made(tag)) for tag in "12")
    assert first["components"] == second["components"], "in whichever order they are named"
    assert first["serialNumber"] != second["serialNumber"]


NAMES = ["chiplog/base", "chiplog/spark", *(one.name for one in images.COMPONENTS)]


@pytest.mark.parametrize("name", NAMES)
def test_labels_say_what_is_true_of_every_build(name: str) -> None:
    said = image_labels.labels(name, "1-abc", "chiplog/base:1-def")
    prefix = "org.opencontainers.image."
    assert all(key.startswith(prefix) for key in said)
    assert {key.removeprefix(prefix) for key in said} == {
        *("title", "description", "version", "licenses", "vendor", "base.name"),
    }
    project = tomllib.loads((layout.CHECKOUT / "pyproject.toml").read_text())["project"]
    assert said[f"{prefix}licenses"] == project["license"]
    assert not [value for value in said.values() if "://" in value], "no host that may not exist"


@pytest.mark.parametrize("component", images.COMPONENTS, ids=lambda one: one.name)
def test_every_image_takes_its_bill_along(component: images.Component) -> None:
    said = component.dockerfile.read_text()
    assert f"\nCOPY {sbom.FILE_NAME} /{Path(sbom.PATH).parent}/\n" in said


def test_changed_labels_make_images_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = images.base().tag
    sources = (*images.METADATA_SOURCES, layout.CHECKOUT / "LICENSE")
    monkeypatch.setattr(images, "METADATA_SOURCES", sources)
    assert images.base().tag != before
