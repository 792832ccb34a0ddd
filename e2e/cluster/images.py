"""Container images, made without a container engine and loaded into the three nodes.

The base image is a Debian tree made by debootstrap; every other image comes from an
ordinary Dockerfile whose base is a build argument, so that the same file builds where
a registry is at hand. Tags carry a hash of what the image was made from: an image
that did not change is neither built nor imported again.
"""

import os
import shutil
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from e2e.cluster import build, layout, node
from e2e.cluster.console import Refused, step
from e2e.cluster.content import content_key
from e2e.cluster.layout import Node
from e2e.cluster.shell import run

DEBIAN = "bookworm"
# Python for our programs, CA certificates for TLS, and what a person in a shell expects.
BASE_PACKAGES = ("ca-certificates", "procps", "python3", "python3-venv", "tini")
# A user that owns nothing else, the same number in every image (Spark's differs).
UID = 10001


@dataclass(frozen=True, slots=True)
class Image:
    """An image by name and the tag that says what it was made from."""

    name: str
    tag: str

    @property
    def reference(self) -> str:
        """As a pod names it; `IMAGE_PREFIX` moves it to a registry."""
        return f"{os.environ.get('IMAGE_PREFIX', '')}{self.name}:{self.tag}"

    @property
    def archive(self) -> Path:
        return layout.cache() / "images" / f"{self.name.replace('/', '-')}-{self.tag}.tar"


def version() -> str:
    project = tomllib.loads((layout.CHECKOUT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def base() -> Image:
    """The image all others stand on."""
    key = content_key([Path(__file__)], DEBIAN, *BASE_PACKAGES)
    return Image("chiplog/base", f"{version()}-{key}")


def build_base() -> Image:
    """Make the base image's archive unless it is there."""
    image = base()
    if image.archive.exists():
        return image
    with step(f"making {image.name} (debootstrap)"):
        work = layout.cache() / "work" / f"base-{os.getpid()}"
        try:
            make_debian_tree(work)
            pack(image, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return image


def make_debian_tree(folder: Path) -> None:
    """A minimal Debian with Python, without what a container never reads."""
    folder.mkdir(parents=True)
    run(
        *("debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}"),
        *(DEBIAN, str(folder), mirror()),
        timeout_s=1200,
    )
    for unused in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(folder / unused, ignore_errors=True)
    for unused in ("usr/share/locale", "usr/share/info", "var/log"):
        shutil.rmtree(folder / unused, ignore_errors=True)
        (folder / unused).mkdir()
    # The machine's own package source is none of the image's business.
    (folder / "etc/apt/sources.list").write_text("")
    with (folder / "etc/passwd").open("a") as users:
        users.write(f"chiplog:x:{UID}:{UID}:chiplog:/nonexistent:/usr/sbin/nologin\n")
    with (folder / "etc/group").open("a") as groups:
        groups.write(f"chiplog:x:{UID}:\n")


def mirror() -> str:
    """The Debian mirror this machine installs from."""
    lines = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages")
    for line in lines.splitlines():
        site, _, release = line.partition(" ")
        if release == DEBIAN:
            return site
    raise Refused(f"apt knows no mirror of Debian {DEBIAN}: run `apt-get update` on Debian 12")


def pack(image: Image, tree: Path) -> None:
    """Turn a folder into an image archive."""
    container = buildah("from", "scratch").strip().splitlines()[-1]
    try:
        buildah("add", "--quiet", container, str(tree), "/")
        buildah(
            *("config", "--user", f"{UID}:{UID}", "--env", "PYTHONSAFEPATH=1"),
            *("--env", "PYTHONUNBUFFERED=1", "--env", "LANG=C.UTF-8", container),
        )
        buildah("commit", "--quiet", container, image.reference)
    finally:
        buildah("rm", container)
    save(image)


def build_pause() -> Image:
    """The image of every pod's sandbox: one static program."""
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
    """Write an image to its archive; only a whole archive gets the final name."""
    image.archive.parent.mkdir(parents=True, exist_ok=True)
    making = image.archive.with_suffix(f".{os.getpid()}")
    # Uncompressed: it is read on this machine alone, and unpacking is what takes time.
    buildah(
        *("push", "--quiet", "--disable-compression", image.reference),
        f"oci-archive:{making}:docker.io/{image.name}:{image.tag}",
    )
    making.rename(image.archive)


def buildah(*arguments: str, timeout_s: float = 1800) -> str:
    """buildah with its own storage in the cache, without namespaces it may not have."""
    storage = layout.cache() / "buildah"
    return run(
        *("buildah", "--root", str(storage), "--runroot", str(layout.RUN / "buildah")),
        *arguments,
        env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
        timeout_s=timeout_s,
    )


def import_pause(one: Node) -> None:
    """Load the sandbox image under the fixed name that containerd is configured with."""
    image = build_pause()
    import_into(one, image)
    node.ctr(one, "images", "tag", "--force", f"docker.io/{image.reference}", pause_name())


def pause_name() -> str:
    return f"docker.io/{node.PAUSE_IMAGE}"


def import_into(one: Node, image: Image) -> None:
    """Load an image into a node's runtime unless it has it."""
    reference = f"docker.io/{image.name}:{image.tag}"
    if reference in node.ctr(one, "images", "list", "--quiet").split():
        return
    node.ctr(one, "images", "import", "--no-unpack", str(image.archive))


def load(wanted: Sequence[Image]) -> None:
    """Load images into all nodes, the nodes side by side."""
    for image in wanted:
        title = f"loading {image.reference} into {len(layout.NODES)} nodes"
        with step(title), ThreadPoolExecutor() as pool:
            list(pool.map(partial(import_into, image=image), layout.NODES))


def load_all() -> list[Image]:
    """Build what is missing and load everything; returns what is loaded now."""
    wanted = [build_base()]
    load(wanted)
    return wanted
