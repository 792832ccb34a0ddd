"""The labels of our images, as the OCI image format defines them.

They depend only on the image's content, so that equal content gives an equal image: there is no
time, no commit, and no address of a registry or host. https://github.com/opencontainers/image-
spec/blob/v1.1.1/annotations.md
"""

from collections.abc import Mapping

LICENSE = "Apache-2.0"
"""Chiplog's license; those of other software in an image are in its bill of materials."""

PREFIX = "org.opencontainers.image"

DESCRIPTIONS: Mapping[str, str] = {
    "chiplog/base": "A minimal Debian with Python, on which Chiplog's images stand",
    "chiplog/broker": "A broker of Chiplog: a partitioned log by the Apache Kafka protocol",
    "chiplog/cli": "The command line of Chiplog",
    "chiplog/operator": "The Kubernetes operator of Chiplog",
    "chiplog/spark": "The Spark jobs of Chiplog: driver, executors and what submits them",
    "chiplog/spark-runtime": "Java and Spark, on which the image of Chiplog's Spark jobs stands",
}
"""One sentence for each image, by its name."""


def labels(name: str, tag: str, base: str | None = None) -> dict[str, str]:
    """Label -> value; `base` is the name and tag of the image's base image, None if it has none."""
    values = {
        "title": name,
        "description": DESCRIPTIONS[name],
        "version": tag,
        "licenses": LICENSE,
        "vendor": "Chiplog",
    }
    if base is not None:
        values["base.name"] = base
    return {f"{PREFIX}.{key}": value for key, value in values.items()}


def options(name: str, tag: str, base: str | None = None) -> list[str]:
    """The labels as command line options of buildah."""
    return [
        part
        for key, value in labels(name, tag, base).items()
        for part in ("--label", f"{key}={value}")
    ]
