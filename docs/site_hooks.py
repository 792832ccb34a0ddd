"""Hooks of MkDocs: they add files outside of docs/, and directories in the navigation.

Pages link to each other as they lie in the repository, so that every reader of its files can follow
them. Whatever a page links to outside of docs/ comes into the site as `repository/PATH`, and the
link leads there. Pages among these (the README) are followed in turn, so their links are checked,
too. A folder is its README.md; a link to one that has none becomes its text.
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
"""Pages of the repository that are added even if no page links to them, so that their links are
checked."""

FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?<=\])\((?![a-z]+:|[/#])([^)#\s]+)(#[^)\s]*)?\)")
LINK_WITH_TEXT: Final = re.compile(rf"\[([^\]]*)\]{LINK.pattern}")


def on_config(config: MkDocsConfig) -> None:
    """Replace the directories in the navigation by their pages."""
    nav: Any = config.nav
    config.nav = expanded(nav, Path(config.docs_dir))


def expanded(nav: Any, docs: Path) -> Any:
    """The navigation with the pages of a directory in place of `DIRECTORY/`, its README first."""
    if isinstance(nav, list):
        return [expanded(entry, docs) for entry in nav]
    if isinstance(nav, dict):
        return {title: expanded(entry, docs) for title, entry in nav.items()}
    if not nav.endswith("/"):
        return nav
    pages = sorted(
        (docs / nav).glob("*.md"), key=lambda page: (page.name != "README.md", page.name)
    )
    return [page.relative_to(docs).as_posix() for page in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to, and the files that these link to."""
    pages = [DOCS + page.src_uri for page in files.documentation_pages()]
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
    """Change the links of a page to the paths that their targets have in the site."""
    return relinked(markdown, page.file.src_uri)


def outside(pages: Iterable[str]) -> list[str]:
    """The files outside of docs/ that these pages link to, directly or by other pages outside.

    All are paths in the repository. Those of `pages` that are outside of docs/ are in the result.
    """
    found: set[str] = set()
    unread = list(pages)
    while unread:
        path = unread.pop()
        if path in found:
            continue
        if not path.startswith(DOCS):
            found.add(path)
        if path.endswith(".md"):
            unread += (
                target
                for target in targets((CHECKOUT / path).read_text(), path)
                if not target.startswith(DOCS) and (CHECKOUT / target).is_file()
            )
    return sorted(found)


def targets(markdown: str, path: str) -> Iterator[str]:
    """The files that a page at `path` in the repository links to, as paths in it."""
    for link in LINK.finditer(FENCE.sub("", markdown)):
        if (target := place(link[1], path)) is not None:
            yield target


def place(link: str, path: str) -> str | None:
    """The path in the repository to which a link on the page at `path` leads. A directory is its
    README.md; None if it has none."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if not (CHECKOUT / target).is_dir():
        return target
    readme = posixpath.join(target, "README.md")
    return readme if (CHECKOUT / readme).is_file() else None


def relinked(markdown: str, uri: str) -> str:
    """The text of a page with its links as they are in the site, where the page has the path `uri`.
    A link to a directory without README becomes its text."""
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
    """The text with everything outside of fenced blocks changed by `change`."""
    changed, position = [], 0
    for fence in FENCE.finditer(markdown):
        changed += [change(markdown[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join([*changed, change(markdown[position:])])
