"""What MkDocs is told beside mkdocs.yml: files outside of docs/, and folders in the navigation.

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
"""Of the repository; checked even where no page links to them."""

FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?<=\])\((?![a-z]+:|[/#])([^)#\s]+)(#[^)\s]*)?\)")
LINK_WITH_TEXT: Final = re.compile(rf"\[([^\]]*)\]{LINK.pattern}")


def on_config(config: MkDocsConfig) -> None:
    """Fill in the folders of the navigation."""
    nav: Any = config.nav
    config.nav = expanded(nav, Path(config.docs_dir))


def expanded(nav: Any, docs: Path) -> Any:
    """The navigation with the pages of a folder in place of `FOLDER/`, its README first."""
    if isinstance(nav, list):
        return [expanded(one, docs) for one in nav]
    if isinstance(nav, dict):
        return {title: expanded(one, docs) for title, one in nav.items()}
    if not nav.endswith("/"):
        return nav
    pages = sorted((docs / nav).glob("*.md"), key=lambda one: (one.name != "README.md", one.name))
    return [one.relative_to(docs).as_posix() for one in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is linked outside of docs/, and what that links to."""
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
    """Lead links of a page to where their targets are in the site."""
    return relinked(markdown, page.file.src_uri)


def outside(pages: Iterable[str]) -> list[str]:
    """The files outside of docs/ that these pages link to, or pages that they link to.

    All are paths in the repository; of `pages` those outside of docs/ are among the result.
    """
    found: set[str] = set()
    ahead = list(pages)
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        if not path.startswith(DOCS):
            found.add(path)
        if path.endswith(".md"):
            ahead += (
                one
                for one in targets((CHECKOUT / path).read_text(), path)
                if not one.startswith(DOCS) and (CHECKOUT / one).is_file()
            )
    return sorted(found)


def targets(markdown: str, path: str) -> Iterator[str]:
    """The files that a page at `path` in the repository links to, as paths in it."""
    for link in LINK.finditer(FENCE.sub("", markdown)):
        if (target := place(link[1], path)) is not None:
            yield target


def place(link: str, path: str) -> str | None:
    """What a link on the page at `path` is about; None for a folder that has no README.md."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if not (CHECKOUT / target).is_dir():
        return target
    readme = posixpath.join(target, "README.md")
    return readme if (CHECKOUT / readme).is_file() else None


def relinked(markdown: str, uri: str) -> str:
    """A page with its links as they are in the site, where it is `uri`."""
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
    """`change` of all that is no fenced block."""
    done, at = [], 0
    for fence in FENCE.finditer(markdown):
        done += [change(markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*done, change(markdown[at:])])
