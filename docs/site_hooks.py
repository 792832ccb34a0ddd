"""MkDocs hooks: they add files outside of docs/ to the site, and folders to the navigation.

Pages link to each other by their paths in the repository, so that the links also work where the
repository is read without the site. A file outside of docs/ that a page links to comes into the
site as `repository/PATH`, and the link is changed to that. Pages among these files (the README) are
searched for links, too, so their links are checked. A link to a folder leads to its README.md; if
there is none, only the link's text stays.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = "docs/"
OUTSIDE: Final = "repository/"
ALWAYS: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Files outside of docs/ that are in the site, and so checked, even if no page links to them."""

FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?<=\])\((?![a-z]+:|[/#])([^)#\s]+)(#[^)\s]*)?\)")
LINK_WITH_TEXT: Final = re.compile(rf"\[([^\]]*)\]{LINK.pattern}")


def on_config(config: MkDocsConfig) -> None:
    """Replace folders in the navigation by their pages."""
    nav: Any = config.nav
    config.nav = expanded(nav, Path(config.docs_dir))


def expanded(nav: Any, docs: Path) -> Any:
    """The navigation (nested lists and dicts of mkdocs.yml), with each entry `FOLDER/` replaced.

    In its place are the folder's pages by name, its README.md first.
    """
    if isinstance(nav, list):
        return [expanded(one, docs) for one in nav]
    if isinstance(nav, dict):
        return {title: expanded(one, docs) for title, one in nav.items()}
    if not nav.endswith("/"):
        return nav
    pages = sorted((docs / nav).glob("*.md"), key=lambda one: (one.name != "README.md", one.name))
    return [one.relative_to(docs).as_posix() for one in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to, directly or through other such pages."""
    pages = [DOCS + one.src_uri for one in files.documentation_pages()]
    for path in outside([*pages, *ALWAYS]):
        source = str(CHECKOUT / path)
        files.append(File.generated(config, OUTSIDE + path, abs_src_path=source))
    return files


def on_page_markdown(
    markdown: str,
    *,
    page: Page,
    config: MkDocsConfig,
    files: Files,
) -> str:
    """Change the links of a page to the places of their targets in the site."""
    return relinked(markdown, page.file.src_uri)


def outside(pages: Iterable[str]) -> list[str]:
    """The files outside of docs/ that `pages` link to, directly or through other such files.

    Everything is a path in the repository. Those of `pages` that lie outside of docs/ are in the
    result, too. Pages in docs/ that are not in `pages` are not followed: MkDocs lists all of them.
    """
    found: set[str] = set()
    to_visit = list(pages)
    while to_visit:
        path = to_visit.pop()
        if path in found:
            continue
        if not path.startswith(DOCS):
            found.add(path)
        if path.endswith(".md"):
            to_visit += (
                one
                for one in targets((CHECKOUT / path).read_text(), path)
                if not one.startswith(DOCS) and (CHECKOUT / one).is_file()
            )
    return sorted(found)


def targets(markdown: str, path: str) -> Iterator[str]:
    """Paths in the repository of the files that a page links to; the page itself is at `path`."""
    for link in LINK.finditer(FENCE.sub("", markdown)):
        if (target := place(link[1], path)) is not None:
            yield target


def place(link: str, path: str) -> str | None:
    """Path in the repository of the file that a link on the page at `path` leads to.

    For a folder it is its README.md; None where the folder has none.
    """
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if not (CHECKOUT / target).is_dir():
        return target
    readme = posixpath.join(target, "README.md")
    return readme if (CHECKOUT / readme).is_file() else None


def relinked(markdown: str, uri: str) -> str:
    """A page with its links changed to places in the site; `uri` is the page's own place.

    A link to a folder without a README.md becomes its text.
    """
    path = uri.removeprefix(OUTSIDE) if uri.startswith(OUTSIDE) else DOCS + uri

    def relink(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        target = place(link, path)
        if target is None:
            return text
        of_site = target.removeprefix(DOCS) if target.startswith(DOCS) else OUTSIDE + target
        return f"[{text}]({posixpath.relpath(of_site, posixpath.dirname(uri) or '.')}{anchor})"

    return outside_fences(markdown, lambda text: LINK_WITH_TEXT.sub(relink, text))


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """A page with `change` applied to all text outside its fenced blocks."""
    done, position = [], 0
    for fence in FENCE.finditer(markdown):
        done += [change(markdown[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join([*done, change(markdown[position:])])
