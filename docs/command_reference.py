"""The reference page of the command line: each command with its arguments and options."""

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
"""Values of options without a metavar, by name. Options that are not listed take a number."""


def page() -> str:
    """The whole page in Markdown."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    parts = [
        ABOUT,
        "## Options of every command\n",
        _options(
            option
            for option in root.params
            if isinstance(option, TyperOption) and option.name in NAMES
        ),
    ]
    for path, command in commands(root):
        parts += _command(path, command)
    return "\n".join(parts)


def commands(group: TyperGroup, path: str = PROGRAM) -> Iterator[tuple[str, TyperCommand]]:
    """Every command with its full name, like `chiplog topics list`, in the order of the help.
    Groups of commands are not listed themselves."""
    for name, command in group.commands.items():
        full_name = f"{path} {name}"
        if isinstance(command, TyperGroup):
            yield from commands(command, full_name)
        else:
            assert isinstance(command, TyperCommand)
            yield full_name, command


def _command(path: str, command: TyperCommand) -> Iterator[str]:
    """The section of a command, in parts. Options that all commands share are left out."""
    own = [parameter for parameter in command.params if parameter.name not in NAMES]
    arguments = [parameter for parameter in own if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in own if isinstance(parameter, TyperOption)]
    yield f"## {path}\n"
    yield f"{' '.join((command.help or '').split())}\n"
    yield f"```\n{' '.join([path, *map(_usage, arguments), '[OPTIONS]'])}\n```\n"
    if arguments:
        rows = [(f"`{argument.metavar}`", argument.help or "") for argument in arguments]
        yield table(("Argument", "Meaning"), rows)
    if options:
        yield _options(options)


def _usage(argument: TyperArgument) -> str:
    """The argument in the command's usage: in brackets if it is optional."""
    several = "..." if argument.nargs == -1 else ""
    text = f"{argument.metavar}{several}"
    return text if argument.required else f"[{text}]"


def _options(options: Iterable[TyperOption]) -> str:
    """The table of some options."""
    rows = [(_names(option), option.help or "", _default(option)) for option in options]
    return table(("Option", "Meaning", "Default"), rows)


def _names(option: TyperOption) -> str:
    """The option's names, and the value that it takes."""
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        return names
    several = ", may be repeated" if option.multiple else ""
    return f"{names} `{option.metavar or VALUES.get(option.name or '', 'NUMBER')}`{several}"


def _default(option: TyperOption) -> str:
    """The default, if it is a text. Others are named in the option's help."""
    return f"`{option.default}`" if isinstance(option.default, str) else ""
