"""The documentation as a site: every link and anchor leads somewhere, and nothing is fetched."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import site_hooks

CHECKOUT = site_hooks.CHECKOUT
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//"
    r"|<link\b(?=[^>]*rel=\"?(?:stylesheet|preconnect|icon))[^>]*href=\"?(?:https?:)?//"
)


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Never with --quiet: warnings that are not shown do not count for --strict."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=checkout,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with what the site is made of, to be broken."""
    checkout = tmp_path / "checkout"
    shutil.copytree(CHECKOUT / "docs", checkout / "docs")
    for folder in ("charts", "crds", "examples"):
        shutil.copytree(CHECKOUT / folder, checkout / folder)
    for name in ("mkdocs.yml", *site_hooks.ALWAYS):
        shutil.copy(CHECKOUT / name, checkout)
    return checkout


def test_every_link_leads_somewhere_and_nothing_is_fetched(tmp_path: Path) -> None:
    done = build(CHECKOUT, tmp_path)

    assert done.returncode == 0, done.stdout
    pages = sorted(tmp_path.rglob("*.html"))
    assert tmp_path / "repository" / "index.html" in pages, "the README is not in the site"
    for page in pages:
        text = page.read_text()
        assert not (found := FETCHED.search(text)), f"{page.name} fetches {found}"
        # Material would fetch the program that draws such a diagram.
        assert 'class="mermaid"' not in text, page.name
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", style.read_text()), style.name


def test_what_leads_nowhere_is_named(copy: Path) -> None:
    broken = {
        "docs/groups.md": ["[a](gone-a.md)", "[b](kubernetes.md#gone-b)"],
        "docs/cli.md": ["[c](../examples/gone-c.yaml)"],
        "README.md": ["[d](docs/gone-d.md)"],
        "CONTRIBUTING.md": ["[e](docs/kubernetes.md#gone-e)"],
        "docs/gone-f.md": ["# A page that is not in the navigation"],
    }
    for page, lines in broken.items():
        with (copy / page).open("a") as file:
            file.write("\n\n".join(["", *lines, ""]))

    done = build(copy, copy / "site")

    assert done.returncode != 0
    for name in "abcdef":
        assert f"gone-{name}" in done.stdout, done.stdout


def test_links_are_followed_as_they_lie_in_the_repository() -> None:
    def of(page: str, uri: str = "groups.md") -> str:
        return site_hooks.relinked(page, uri)

    assert of("[a](../crds/README.md#x)") == "[a](repository/crds/README.md#x)"
    assert of("[a](../crds)") == "[a](repository/crds/README.md)"
    assert of("[a](../examples)") == "a", "a folder without a README has no page"
    assert of("[a](cli.md)") == "[a](cli.md)"
    assert of("[a](https://b/c) [d](#e)") == "[a](https://b/c) [d](#e)"
    assert of("```\n[a](../crds)\n```\n") == "```\n[a](../crds)\n```\n"
    assert of("![p](docs/images/p.svg)", "repository/README.md") == "![p](../images/p.svg)"
    assert of("[a](../../crds/README.md)", "decisions/1.md") == "[a](../repository/crds/README.md)"


def test_a_folder_in_the_navigation_is_its_pages(tmp_path: Path) -> None:
    for name in ("b.md", "README.md", "a.md"):
        (tmp_path / name).touch()

    nav = site_hooks.expanded([{"All": "d/"}, "index.md"], tmp_path.parent / "docs")
    assert nav == [{"All": []}, "index.md"]
    nav = site_hooks.expanded([{"All": f"{tmp_path.name}/"}], tmp_path.parent)
    assert [Path(one).name for one in nav[0]["All"]] == ["README.md", "a.md", "b.md"]
