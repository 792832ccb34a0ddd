"""The options that all commands share, declared once: where the cluster is, and how to answer.

They may stand before the command, too (`kubectl chiplog -n shop topics list`); what stands behind
it wins.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from chiplog_cli.errors import CannotDo
from chiplog_cli.moments import length_ms
from chiplog_cli.printable import lines
from chiplog_cli.printing import Format
from chiplog_cli.session import Session
from chiplog_cli.target import ENVIRONMENT, target
from chiplog_core.version import VERSION

DEFAULT_TIMEOUT = "15s"

T = TypeVar("T")


def _config_option(*names: str) -> Any:
    """The option for a file with the properties of a Kafka client, under these names."""
    return typer.Option(
        *names,
        metavar="FILE",
        help="Properties of a Kafka client that say how to connect, like security.protocol.",
    )


def _shared(  # noqa: PLR0913 - they are what all commands share
    *,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help=f"Addresses of brokers to connect to first. Default: the value of {ENVIRONMENT}.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A BrokerCluster on Kubernetes, instead of --bootstrap-server."
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Namespace of the BrokerCluster. Default: kubectl's current namespace.",
        ),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Path of the kubeconfig. Default: the one that kubectl uses."
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Context in the kubeconfig. Default: the current context."
        ),
    ] = None,
    listener: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Listener of the BrokerCluster. Default: the first one that can "
            "be reached from here.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --cluster: connect as this User, with the credentials in its Secret.",
        ),
    ] = None,
    command_config: Annotated[str | None, _config_option("--command-config", "--config")] = None,
    request_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help=f"How long to wait for an answer. Default: {DEFAULT_TIMEOUT}."
        ),
    ] = None,
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Output format. Default: table.")
    ] = None,
) -> None:
    """Declare the shared options. Nothing calls this function: its signature is read to give every
    command these options."""


def _print_version(is_given: bool) -> None:
    """The callback of --version, which is called without the option as well."""
    if is_given:
        typer.echo(f"chiplog {VERSION}")
        raise typer.Exit


_VERSION = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version of this program.",
        ),
    ],
)
SHARED = tuple(inspect.signature(_shared).parameters.values())
NAMES = tuple(parameter.name for parameter in SHARED)

Command = Callable[..., None]


def command(group: typer.Typer, name: str) -> Callable[[Command], Command]:
    """Make a function a command. It gets a `Session` first, and then its own options.

    `CannotDo` ends the command with one line and exit status 1; options that contradict each other
    end it with exit status 2.
    """

    def register(function: Command) -> Command:
        own = list(inspect.signature(function).parameters.values())[1:]

        def run(invocation: typer.Context, **given: Any) -> None:
            shared = {name: given.pop(name) for name in NAMES}
            try:
                function(_session({**(invocation.obj or {}), **_used(shared)}), **given)
            except CannotDo as error:
                typer.echo(f"chiplog: {lines(str(error))}", err=True)
                raise typer.Exit(1) from error

        shared_options = _without_config(SHARED) if "config" in _names(own) else SHARED
        _with_signature(run, [*own, *shared_options], doc=function.__doc__)
        group.command(name)(run)
        return function

    return register


def _names(parameters: Iterable[inspect.Parameter]) -> set[str]:
    return {parameter.name for parameter in parameters}


def _without_config(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """The shared options for a command whose own --config is something else, as in Kafka's
    tools."""
    only_long = Annotated[str | None, _config_option("--command-config")]
    return [
        parameter.replace(annotation=only_long) if parameter.name == "command_config" else parameter
        for parameter in parameters
    ]


def remember(app: typer.Typer, doc: str) -> None:
    """Accept the shared options also before the command's name. They are kept in the context of the
    invocation, and an option after the name wins. `doc` is the program's help text."""

    def run(invocation: typer.Context, **given: Any) -> None:
        del given["version"]  # its callback ends the program
        invocation.obj = _used(given)

    _with_signature(run, [*SHARED, _VERSION], doc=doc)
    app.callback()(run)


def _with_signature(run: Command, parameters: list[inspect.Parameter], doc: str | None) -> None:
    """Give a function that takes `**given` the signature and help text (`doc`) from which typer
    makes its options and arguments."""
    invocation = inspect.Parameter(
        "invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    shown = [
        invocation,
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters),
    ]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    run.__doc__ = doc


def _used(given: Mapping[str, Any]) -> dict[str, Any]:
    """The shared options that were used. An option that was not is None."""
    return {name: value for name, value in given.items() if value is not None}


def _session(used: Mapping[str, Any]) -> Session:
    """The session for the shared options that were used. Raises a usage error if they contradict
    each other."""
    given = {name: used.get(name) for name in NAMES}
    return Session(
        target=checked(lambda: target(given, os.environ)),
        form=given["output"] or Format.TABLE,
        timeout_s=timeout_s(given["request_timeout"] or DEFAULT_TIMEOUT),
        config=Path(given["command_config"]) if given["command_config"] else None,
    )


def timeout_s(text: str) -> float:
    """The seconds of `--request-timeout`, which must be above 0. A usage error says how to write
    it."""
    length = checked(lambda: length_ms(text), "--request-timeout")
    if length < 1:
        raise typer.BadParameter(
            "the time is zero: use a longer one, like 15s", param_hint="--request-timeout"
        )
    return length / 1000


def checked(read: Callable[[], T], option: str | None = None) -> T:
    """The result of `read`. Its `ValueError` becomes a usage error with exit status 2."""
    try:
        return read()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
