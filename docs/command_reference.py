"""The reference page of the command line: each command's arguments and options, as in `--help`."""

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
"""Option -> its possible values, for options without a metavar. Others take a number."""


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
    """Every command that can be run, in the order of the help, as (its full name, the command).

    `path` is the full name of `group`; groups themselves are not in the result.
    """
    for name, command in group.commands.items():
        full_name = f"{path} {name}"
        if isinstance(command, TyperGroup):
            yield from commands(command, full_name)
        else:
            assert isinstance(command, TyperCommand)
            yield full_name, command


def _command(path: str, command: TyperCommand) -> Iterator[str]:
    """A command's section; the options of every command (`NAMES`) have a section of their own."""
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
    """An argument in the usage line: brackets if it is optional, dots if it may be repeated."""
    several = "..." if argument.nargs == -1 else ""
    text = f"{argument.metavar}{several}"
    return text if argument.required else f"[{text}]"


def _options(options: Iterable[TyperOption]) -> str:
    """The table of some options."""
    rows = [(_written(one), one.help or "", _default(one)) for one in options]
    return table(("Option", "Meaning", "Default"), rows)


def _written(option: TyperOption) -> str:
    """An option as it is typed: its names, its value unless it is a flag."""
    names = ", ".join(f"`{one}`" for one in option.opts)
    if option.is_flag:
        return names
    several = ", may be repeated" if option.multiple else ""
    return f"{names} `{option.metavar or VALUES.get(option.name or '', 'NUMBER')}`{several}"


def _default(option: TyperOption) -> str:
    """The default in the table; empty where it is no text, since the help text names it then."""
    return f"`{option.default}`" if isinstance(option.default, str) else ""
