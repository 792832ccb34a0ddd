"""The image of the Spark jobs: six times as large as the others, and built only where it is wanted.

It stands on a runtime of its own, Java and Spark without our code, which is made again only when
one of those changes. The image is no part of `images.built()`: callers that need it ask for it
here.
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
"""What Spark itself does not have: Delta Lake."""
UNUSED = DIRECTORY / "runtime" / "unused.txt"
PACKAGES = (images.CORE, images.KUBE, images.WIRE, DIRECTORY / "chiplog_spark")


def build() -> Image:
    """The jobs' image, built unless its content was built before."""
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
    """What is in it: of the runtime below, and the jars that are added."""
    wheels = spark_wheels.wheels(LOCK)
    yield sbom.chiplog(VERSION)
    yield from sbom.debian_packages(images.installed_in(below), debian.RELEASE)
    yield from sbom.wheels(wheels)
    yield from sbom.jars_of_wheel(wheels, spark_wheels.SOURCE_ONLY, unused())
    yield from sbom.jars(added)


def unused() -> list[str]:
    """Patterns of what the runtime takes out of the installed packages."""
    lines = UNUSED.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def runtime() -> Image:
    """What the jobs' image stands on."""
    made_from = [DIRECTORY / "runtime", LOCK, Path(debian_packages.__file__)]
    key = content_key(made_from, JAVA, images.base().tag)
    return Image("chiplog/spark-runtime", f"{VERSION}-{key}")


def build_runtime(image: Image) -> None:
    """Build it unless buildah has it; it has no archive, since no node needs it by itself."""
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
            copy_function=os.link,  # half a gigabyte, in the same file system
        )
        shutil.copy(UNUSED, context)
        images.build_from(DIRECTORY / "runtime" / "Dockerfile", context, below=below, image=image)
