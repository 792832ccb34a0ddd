"""The image of the Spark jobs: six times as large as the others, and built only on demand.

Its base image is the runtime image: Java and Spark without our code, which is built again only
when Java or Spark changes. `images.built()` does not include the image: callers that need it call
`build` here.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from chiplog_core.version import VERSION
from e2e.cluster import debian, debian_packages, images, layout, sbom, spark_wheels
from e2e.cluster.console import step
from e2e.cluster.content import content_key
from e2e.cluster.images import Image, buildah
from e2e.kafka.jars import jars

JAVA = "openjdk-17-jre-headless"
LOCK = layout.CHECKOUT / "requirements" / "spark.lock"
DIRECTORY = layout.CHECKOUT / "spark-jobs"
JARS = DIRECTORY / "pom.xml"
"""Lists the jars that are added to Spark's own: Delta Lake."""
UNUSED = DIRECTORY / "runtime" / "unused.txt"
PACKAGES = (images.CORE, images.KUBE, images.WIRE, DIRECTORY / "chiplog_spark")


def build() -> Image:
    """The image of the Spark jobs; it is built unless an archive of the same content exists."""
    below = runtime()
    dockerfile = DIRECTORY / "Dockerfile"
    key = content_key([dockerfile, JARS, *PACKAGES], below.tag)
    image = Image("chiplog/spark", f"{VERSION}-{key}")
    if image.archive.exists():
        return image
    build_runtime(below)
    with step(f"building {image.name}"), TemporaryDirectory() as directory:
        context = Path(directory)
        images.copy_packages(PACKAGES, context)
        shutil.copytree(jars(JARS), context / "jars")
        images.write_bill(image, parts(below, context / "jars"), context / sbom.FILE_NAME)
        images.build_from(dockerfile, context, below=below, image=image)
        images.save(image)
    return image


def parts(below: Image, added: Path) -> Iterator[sbom.Part]:
    """The parts of the image for its bill of materials.

    `below` is the runtime image, `added` the directory of the jars that are added to it.
    """
    wheels = spark_wheels.wheels(LOCK)
    yield sbom.chiplog(VERSION)
    yield from sbom.debian_packages(images.installed_in(below), debian.RELEASE)
    yield from sbom.wheels(wheels)
    yield from sbom.jars_of_wheel(wheels, spark_wheels.SOURCE_ONLY, unused())
    yield from sbom.jars(added)


def unused() -> list[str]:
    """Patterns of the installed files that the runtime image deletes to become smaller."""
    lines = UNUSED.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def runtime() -> Image:
    """Name and tag of the runtime image: Java and Spark without our code."""
    made_from = [DIRECTORY / "runtime", LOCK, Path(debian_packages.__file__)]
    key = content_key(made_from, JAVA, images.base().tag)
    return Image("chiplog/spark-runtime", f"{VERSION}-{key}")


def build_runtime(image: Image) -> None:
    """Build the runtime image unless buildah's storage has it.

    It gets no archive, since nodes run only the image that is built on it.
    """
    if images.is_stored(image):
        return
    below = images.build_base()
    with step(f"building {image.name}"), TemporaryDirectory(dir=layout.cache()) as directory:
        context = Path(directory)
        if not images.is_stored(below):
            buildah("pull", "--quiet", f"oci-archive:{below.archive}")
        debian_packages.download(JAVA, images.installed_in(below), context / "debs")
        shutil.copytree(
            spark_wheels.wheels(LOCK),
            context / "wheels",
            copy_function=os.link,  # instead of a copy: half a gigabyte, in the same file system
        )
        shutil.copy(UNUSED, context)
        images.build_from(DIRECTORY / "runtime" / "Dockerfile", context, below=below, image=image)
