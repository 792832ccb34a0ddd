"""The reference page of the command line: each command with what it takes, as `--help` says it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from chiplog_cli.main import app
from chiplog_cli.options import NAMES
from chiplog_cli.printing import Format
from docs.tables import table

ABOUT: Final = """# Commands

What `chiplog --help` and the help of each command say, on one page; [how they are used](../cli.md).
Generated from the commands themselves.
"""
PROGRAM: Final = "chiplog"
VALUES: Final[Mapping[str, str]] = {"output": "|".join(Format)}
"""Of options that do not name theirs; those that are not here take a number."""


def page() -> str:
    """The whole page in Markdown."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    parts = [
        ABOUT,
        "## Options of every command\n",
        _options(one for one in root.params if isinstance(one, TyperOption) and one.name in NAMES),
    ]
    for path, command in commands(root):
        parts += _command(path, command)
    return "\n".join(parts)


def commands(group: TyperGroup, path: str = PROGRAM) -> Iterator[tuple[str, TyperCommand]]:
    """Every command that does something, in the order of the help."""
    for name, one in group.commands.items():
        below = f"{path} {name}"
        if isinstance(one, TyperGroup):
            yield from commands(one, below)
        else:
            assert isinstance(one, TyperCommand)
            yield below, one


def _command(path: str, command: TyperCommand) -> Iterator[str]:
    own = [one for one in command.params if one.name not in NAMES]
    arguments = [one for one in own if isinstance(one, TyperArgument)]
    options = [one for one in own if isinstance(one, TyperOption)]
    yield f"## {path}\n"
    yield f"{' '.join((command.help or '').split())}\n"
    yield f"```\n{' '.join([path, *map(_usage, arguments), '[OPTIONS]'])}\n```\n"
    if arguments:
        rows = [(f"`{one.metavar}`", one.help or "") for one in arguments]
        yield table(("Argument", "Meaning"), rows)
    if options:
        yield _options(options)


def _usage(argument: TyperArgument) -> str:
    several = "..." if argument.nargs == -1 else ""
    text = f"{argument.metavar}{several}"
    return text if argument.required else f"[{text}]"


def _options(options: Iterable[TyperOption]) -> str:
    rows = [(_written(one), one.help or "", _default(one)) for one in options]
    return table(("Option", "Meaning", "Default"), rows)


def _written(option: TyperOption) -> str:
    names = ", ".join(f"`{one}`" for one in option.opts)
    if option.is_flag:
        return names
    several = ", may be repeated" if option.multiple else ""
    return f"{names} `{option.metavar or VALUES.get(option.name or '', 'NUMBER')}`{several}"


def _default(option: TyperOption) -> str:
    return f"`{option.default}`" if isinstance(option.default, str) else ""
