"""What built images say of themselves, held against what is in them. Needs no node."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import image_labels, images, sbom, spark_image
from e2e.cluster.images import Image, buildah

# A hang guard: the first time, images are built.
pytestmark = [pytest.mark.timeout(1800)]

INSTALLED = """
import importlib.metadata as m, json, re
print(json.dumps(sorted(
    [re.sub("[-_.]+", "-", d.metadata["Name"]).lower(), d.version] for d in m.distributions()
)))
"""
JARS = "cd /opt/chiplog/lib/python3.11/site-packages && find pyspark/jars -name '*.jar' | wc -l"
OURS = [
    *(
        pytest.param(image, marks=pytest.mark.cluster, id=image)
        for image in ("chiplog/base", *(one.name for one in images.COMPONENTS))
    ),
    pytest.param("chiplog/spark", marks=pytest.mark.spark, id="chiplog/spark"),
]


def built(name: str) -> Image:
    if name == "chiplog/spark":
        return spark_image.build()
    (found,) = [one for one in images.built() if one.name == name]
    return found


@pytest.fixture(params=OURS)
def image(request: pytest.FixtureRequest) -> Image:
    return built(request.param)


@pytest.fixture
def container(image: Image) -> Iterator[str]:
    if not images.is_stored(image):
        buildah("pull", "--quiet", f"oci-archive:{image.archive}")
    name = buildah("from", "--pull-never", image.reference).strip().splitlines()[-1]
    try:
        yield name
    finally:
        buildah("rm", name)


def of_kind(bill: Any, kind: str) -> list[list[str]]:
    """Name and version of all components of a kind of package."""
    return sorted(
        [one["name"], one["version"]]
        for one in bill["components"]
        if one.get("purl", "").startswith(f"pkg:{kind}/")
    )


def test_the_bill_names_what_is_in_the_image_and_no_more(image: Image, container: str) -> None:
    text = images.printed_in(container, "cat", f"/{sbom.PATH}")
    assert text == image.bill.read_text(), "beside the archive lies the same"
    bill = json.loads(text)
    query = ("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package} ${Version}\n")
    debian = [line.split() for line in images.printed_in(container, *query).splitlines()]
    assert of_kind(bill, "deb") == sorted(rest for state, *rest in debian if state == "ii")
    python = json.loads(images.printed_in(container, "python3", "-c", INSTALLED))
    assert of_kind(bill, "pypi") == python
    if image.name == "chiplog/spark":
        jars = int(images.printed_in(container, "sh", "-c", JARS))
        assert len(of_kind(bill, "maven")) + len(of_kind(bill, "generic")) == jars


def test_the_labels_are_there_and_say_which_image_it_is(image: Image) -> None:
    if not images.is_stored(image):
        buildah("pull", "--quiet", f"oci-archive:{image.archive}")
    said = json.loads(buildah("inspect", "--type", "image", image.reference))
    found = said["OCIv1"]["config"]["Labels"]
    expected = image_labels.labels(image.name, image.tag)
    assert expected.items() <= found.items()
    if image.name != "chiplog/base":
        assert found[f"{image_labels.PREFIX}.base.name"].startswith("chiplog/")
    assert said["OCIv1"]["config"]["User"] not in {"", "0", "root"}
