"""Builds container images without a container engine, and loads them into the three nodes.

The base image is a Debian tree made by debootstrap. Every other image is built from a Dockerfile
whose base image is a build argument, so that users with a registry can build from the same file.
Tags contain a hash of all sources: an image that did not change is neither built nor imported
again.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from chiplog_core.version import VERSION
from e2e.cluster import build, debian, debian_packages, image_labels, layout, node, sbom
from e2e.cluster.cached import cached
from e2e.cluster.console import step
from e2e.cluster.content import content_key
from e2e.cluster.layout import Node
from e2e.cluster.shell import run

# How often a program that printed nothing is run.
RUNS = 5
# Debian bookworm's Python, and the platforms whose wheels run there.
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


@dataclass(frozen=True, slots=True)
class Image:
    """The name and tag of an image; the tag contains a hash of its sources."""

    name: str
    tag: str

    @property
    def reference(self) -> str:
        """The image reference for pods; the environment variable IMAGE_PREFIX adds a registry."""
        return f"{os.environ.get('IMAGE_PREFIX', '')}{self.name}:{self.tag}"

    @property
    def archive(self) -> Path:
        """The OCI archive of the image in the cache; it exists once the image is built."""
        return layout.cache() / "images" / f"{self.name.replace('/', '-')}-{self.tag}.tar"

    @property
    def bill(self) -> Path:
        """A copy of the bill of materials that the image contains, next to its archive."""
        return self.archive.with_suffix(".cdx.json")


METADATA_SOURCES = (Path(image_labels.__file__), Path(sbom.__file__))
"""These modules write labels and bills of materials into all images. They are part of the base
image's key, and so of all keys: a change rebuilds every image."""


def base() -> Image:
    """Name and tag of the base image of all others."""
    key = content_key([Path(debian.__file__), *METADATA_SOURCES])
    return Image("chiplog/base", f"{VERSION}-{key}")


def build_base() -> Image:
    """Build the base image unless its archive exists."""
    image = base()
    if image.archive.exists():
        return image
    with step(f"making {image.name} (debootstrap)"):
        work = layout.cache() / "work" / f"base-{os.getpid()}"
        try:
            debian.make_tree(work)
            status = (work / debian_packages.INSTALLED).read_text()
            bill = work / sbom.PATH
            bill.parent.mkdir(parents=True)
            write_bill(image, sbom.debian_packages(status, debian.RELEASE), bill)
            pack(image, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return image


def pack(image: Image, tree: Path) -> None:
    """Build an image from a directory tree, and write its archive."""
    # The last printed line is the name of the new container.
    container = buildah("from", "scratch").strip().splitlines()[-1]
    try:
        buildah("add", "--quiet", container, str(tree), "/")
        buildah(
            *("config", "--user", f"{debian.UID}:{debian.UID}", "--env", "PYTHONSAFEPATH=1"),
            *("--env", "PYTHONUNBUFFERED=1", "--env", "LANG=C.UTF-8"),
            *(*image_labels.options(image.name, image.tag), container),
        )
        buildah("commit", "--quiet", container, image.reference)
    finally:
        buildah("rm", container)
    save(image)


def write_bill(image: Image, parts: Iterable[sbom.Part], path: Path) -> None:
    """Write an image's bill of materials to `path`, from where it is copied into the image, and
    next to its archive.

    This happens before the archive is written: so an archive always has its bill.
    """
    text = sbom.document(image.name, image.tag, parts)
    path.write_text(text)
    image.bill.parent.mkdir(parents=True, exist_ok=True)
    making = image.bill.with_suffix(f".{os.getpid()}")
    making.write_text(text)
    making.rename(image.bill)


def build_pause() -> Image:
    """Build the image of the pod sandboxes, which is one static program."""
    # The program is in a directory named pause-KEY, whose key becomes the tag.
    image = Image("chiplog/pause", build.program("pause").parent.name.removeprefix("pause-"))
    if not image.archive.exists():
        with step(f"making {image.name}"):
            container = buildah("from", "scratch").strip()
            try:
                buildah("add", "--quiet", container, str(build.program("pause")), "/pause")
                buildah("config", "--entrypoint", '["/pause"]', "--user", "65535", container)
                buildah("commit", "--quiet", container, image.reference)
            finally:
                buildah("rm", container)
            save(image)
    return image


def save(image: Image) -> None:
    """Write an image to its archive; the file gets its final name only when it is complete."""
    image.archive.parent.mkdir(parents=True, exist_ok=True)
    making = image.archive.with_suffix(f".{os.getpid()}")
    # Uncompressed, since decompression is the slowest part of an import on the same machine.
    buildah(
        *("push", "--quiet", "--disable-compression", image.reference),
        f"oci-archive:{making}:docker.io/{image.name}:{image.tag}",
    )
    making.rename(image.archive)


def buildah(*arguments: str, timeout_s: float = 1800) -> str:
    """Run buildah with its own storage in the cache; returns its output.

    `chroot` isolation needs no namespaces, which some machines do not allow.
    """
    storage = layout.cache() / "buildah"
    return run(
        *("buildah", "--root", str(storage), "--runroot", str(layout.RUN / "buildah")),
        *arguments,
        env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
        timeout_s=timeout_s,
    )


def printed_in(container: str, *command: str) -> str:
    """What a program that prints something prints in a container of buildah's.

    With `chroot` isolation buildah can lose what a program prints that ends at once, and reports
    success: then the program is run again. Raises `CommandFailed` if the program fails, and
    `RuntimeError` if it prints nothing.
    """
    for _ in range(RUNS):
        if printed := buildah("run", container, "--", *command):
            return printed
    raise RuntimeError(f"{' '.join(command)} prints nothing in {container}")


@dataclass(frozen=True, slots=True)
class Component:
    """An image that is built from a Dockerfile, a lock of Python requirements, and our packages."""

    name: str
    dockerfile: Path
    lock: Path
    packages: tuple[Path, ...]
    """Directories of our Python packages that are copied into it."""


CORE = layout.CHECKOUT / "core" / "chiplog_core"
KUBE = layout.CHECKOUT / "kube" / "chiplog_kube"
WIRE = layout.CHECKOUT / "wire" / "chiplog_wire"
COMPONENTS = (
    Component(
        "chiplog/broker",
        layout.CHECKOUT / "broker-image" / "Dockerfile",
        layout.CHECKOUT / "requirements" / "broker.lock",
        (CORE, KUBE, WIRE, layout.CHECKOUT / "broker-image" / "chiplog_broker"),
    ),
    Component(
        "chiplog/operator",
        layout.CHECKOUT / "operator" / "Dockerfile",
        layout.CHECKOUT / "requirements" / "operator.lock",
        (
            CORE,
            KUBE,
            WIRE / "__init__.py",
            WIRE / "scram.py",
            WIRE / "sealing.py",
            WIRE / "verifiers.py",
            layout.CHECKOUT / "operator" / "chiplog_operator",
        ),
    ),
    Component(
        "chiplog/cli",
        layout.CHECKOUT / "cli" / "Dockerfile",
        layout.CHECKOUT / "requirements" / "cli.lock",
        (
            CORE,
            KUBE,
            WIRE / "__init__.py",
            WIRE / "scram.py",
            WIRE / "security_protocol.py",
            layout.CHECKOUT / "cli" / "chiplog_cli",
        ),
    ),
)


def build_component(component: Component) -> Image:
    """Build an image from its Dockerfile unless an archive of the same content exists."""
    below = build_base()
    sources = [component.dockerfile, component.lock, *component.packages]
    image = Image(component.name, f"{VERSION}-{content_key(sources, below.tag)}")
    if image.archive.exists():
        return image
    with step(f"building {image.name}"), TemporaryDirectory() as directory:
        context = Path(directory)
        shutil.copytree(wheels(component.lock), context / "wheels")
        shutil.copy(component.lock, context)
        copy_packages(component.packages, context)
        if not is_stored(below):
            buildah("pull", "--quiet", f"oci-archive:{below.archive}")
        parts = [
            sbom.chiplog(VERSION),
            *sbom.debian_packages(installed_in(below), debian.RELEASE),
            *sbom.wheels(context / "wheels"),
        ]
        write_bill(image, parts, context / sbom.FILE_NAME)
        build_from(component.dockerfile, context, below=below, image=image)
        save(image)
    return image


def copy_packages(packages: Sequence[Path], context: Path) -> None:
    """Copy Python packages, or single files of them, into `packages/` of a build context."""
    ignored = shutil.ignore_patterns("__pycache__")
    for package in packages:
        # Without the first part of the path: core/chiplog_core becomes packages/chiplog_core.
        target = context.joinpath("packages", *package.relative_to(layout.CHECKOUT).parts[1:])
        if package.is_dir():
            shutil.copytree(package, target, ignore=ignored)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(package, target)


def installed_in(image: Image) -> str:
    """The text of dpkg's status file in an image of buildah's storage."""
    container = buildah("from", "--pull-never", image.reference).strip().splitlines()[-1]
    try:
        return printed_in(container, "cat", f"/{debian_packages.INSTALLED}")
    finally:
        buildah("rm", container)


def is_stored(image: Image) -> bool:
    """Whether the image is in buildah's storage; that does not depend on its archive."""
    return image.reference in buildah("images", "--format", "{{.Name}}:{{.Tag}}")


def build_from(dockerfile: Path, context: Path, *, below: Image, image: Image) -> None:
    """Build `image` with the base image `below`, which must be in buildah's storage."""
    buildah(
        *("bud", "--quiet", "--layers=false", "--pull-never"),
        *("--build-arg", f"BASE_IMAGE={below.reference}", "--tag", image.reference),
        *image_labels.options(image.name, image.tag, f"{below.name}:{below.tag}"),
        *("--file", str(dockerfile), str(context)),
    )


def wheels(lock: Path) -> Path:
    """A directory with the wheels of a lock, for the Python version of the images.

    Each wheel is checked against the lock's hash.
    """
    directory = layout.cache() / "wheels" / f"{lock.stem}-{content_key([lock])}"
    return cached(directory, lambda making: download_wheels(lock, making))


def download_wheels(lock: Path, directory: Path) -> None:
    """Download the wheels of a lock, for the images' Python, into a directory."""
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"),
        *(f"--platform={platform}" for platform in PLATFORMS),
        *("--dest", str(directory), "--requirement", str(lock)),
        timeout_s=900,
    )


def import_pause(one: Node) -> None:
    """Import the sandbox image, and tag it with the fixed name in containerd's configuration."""
    image = build_pause()
    import_into(one, image)
    node.ctr(one, "images", "tag", "--force", f"docker.io/{image.reference}", pause_name())


def pause_name() -> str:
    return f"docker.io/{node.PAUSE_IMAGE}"


def import_into(one: Node, image: Image) -> None:
    """Import an image into a node's containerd, unless it has the image."""
    reference = f"docker.io/{image.name}:{image.tag}"
    if reference in node.ctr(one, "images", "list", "--quiet").split():
        return
    node.ctr(one, "images", "import", "--no-unpack", str(image.archive))


def load(wanted: Sequence[Image]) -> None:
    """Import images one after the other, each into all nodes in parallel."""
    for image in wanted:
        title = f"loading {image.reference} into {len(layout.NODES)} nodes"
        with step(title), ThreadPoolExecutor() as pool:
            list(pool.map(partial(import_into, image=image), layout.NODES))


def built() -> list[Image]:
    """All our images except that of the Spark jobs, built if they are missing.

    Their tags are those of the current sources.
    """
    return [build_base(), *map(build_component, COMPONENTS)]
