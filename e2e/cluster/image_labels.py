"""Metadata in our images: the labels of the OCI image format.

Only what follows from the image's content, so that the same content is the same image: no time, no
commit, no address of a registry or a host.
https://github.com/opencontainers/image-spec/blob/v1.1.1/annotations.md
"""

from collections.abc import Mapping

LICENSE = "Apache-2.0"
"""Chiplog's own; what of others is in an image has its licenses in the bill of materials."""

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
    """The labels of an image; `base` is the tagged name of the one it stands on."""
    said = {
        "title": name,
        "description": DESCRIPTIONS[name],
        "version": tag,
        "licenses": LICENSE,
        "vendor": "Chiplog",
    }
    if base is not None:
        said["base.name"] = base
    return {f"{PREFIX}.{key}": value for key, value in said.items()}


def options(name: str, tag: str, base: str | None = None) -> list[str]:
    """The same as buildah takes them on its command line."""
    return [
        part
        for key, value in labels(name, tag, base).items()
        for part in ("--label", f"{key}={value}")
    ]
