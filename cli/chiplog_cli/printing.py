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
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(
    form: Format, document: "Mapping[str, Any] | Sequence[Any]", text: Callable[[], str]
) -> None:
    """One answer. The text is only made where it is asked for; nothing is printed for none."""
    match form:
        case Format.TABLE:
            if shown := text():
                typer.echo(lines(shown))
        case Format.JSON:
            typer.echo(json_text(json.dumps(document, indent=2, ensure_ascii=False)))
        case Format.YAML:
            typer.echo(_yaml(document), nl=False)


def show_next(form: Format, document: "Mapping[str, Any]", text: Callable[[], str]) -> None:
    """One of many answers: a line of JSON each, or documents of one YAML stream."""
    match form:
        case Format.TABLE:
            typer.echo(lines(text()))
        case Format.JSON:
            typer.echo(json_text(json.dumps(document, ensure_ascii=False)))
        case Format.YAML:
            typer.echo("---\n" + _yaml(document), nl=False)


def remark(text: str) -> None:
    """Something to know about the answer, where it does not end up in a pipe."""
    typer.echo(lines(text), err=True)


def _yaml(document: object) -> str:
    import yaml  # noqa: PLC0415 - tables need none

    text = str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    if lines(text) == text:
        return text
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))
