"""What a command found out, in the form the user asked for, on standard output."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from chiplog_cli.printable import json_text, lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(
    form: Format, document: "Mapping[str, Any] | Sequence[Any]", text: Callable[[], str]
) -> None:
    """Print an answer in the format `form`: the document as JSON or YAML, or as a table the result
    of `text`, which is called only for that. Nothing is printed for an empty text."""
    match form:
        case Format.TABLE:
            if shown := text():
                typer.echo(lines(shown))
        case Format.JSON:
            typer.echo(json_text(json.dumps(document, indent=2, ensure_ascii=False)))
        case Format.YAML:
            typer.echo(_yaml(document), nl=False)


def show_next(form: Format, document: "Mapping[str, Any]", text: Callable[[], str]) -> None:
    """Print one of many answers: as text (the result of `text`), as a line of JSON, or as a
    document of a YAML stream."""
    match form:
        case Format.TABLE:
            typer.echo(lines(text()))
        case Format.JSON:
            typer.echo(json_text(json.dumps(document, ensure_ascii=False)))
        case Format.YAML:
            typer.echo("---\n" + _yaml(document), nl=False)


def remark(text: str) -> None:
    """Print a remark about the answer to standard error, where it does not get into a pipe."""
    typer.echo(lines(text), err=True)


def _yaml(document: object) -> str:
    """The document as YAML. If it has control characters, all but ASCII characters are escaped,
    because a terminal would obey them."""
    import yaml  # noqa: PLC0415 - tables need none

    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    if lines(text) == text:
        return text
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))
