"""What is wrong is said in one line, with the option and the remedy; never a traceback."""

import socket

import pytest

from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.ports import LOOPBACK, free_ports
from tests.commands.program import Chiplog


def test_nobody_listens(alone: Chiplog) -> None:
    (port,) = free_ports(1)
    refused = alone("topics", "list", "--bootstrap-server", f"{LOOPBACK}:{port}")
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"chiplog: --bootstrap-server: no broker can be reached ({LOOPBACK}:{port}: Connection "
        "refused): check the address, and whether a broker listens there\n"
    )


def test_one_address_of_several_is_enough(
    alone: Chiplog, chiplog: Chiplog, broker: StandaloneBroker
) -> None:
    (port,) = free_ports(1)
    several = f"{LOOPBACK}:{port},{broker.bootstrap}"
    listed = alone("topics", "list", "--bootstrap-server", several)
    assert (listed.exit_code, listed.stdout) == (0, chiplog("topics", "list").stdout)


def test_somebody_listens_who_says_nothing(alone: Chiplog) -> None:
    with socket.create_server((LOOPBACK, 0)) as mute:
        address = f"{LOOPBACK}:{mute.getsockname()[1]}"
        for command in (("topics", "list"), ("status",), ("groups", "list")):
            refused = alone(*command, "--bootstrap-server", address, "--request-timeout", "1s")
            assert refused.exit_code == 1
            assert "no answer in time" in refused.stderr
            assert refused.stderr.count("\n") == 1


AT = "--bootstrap-server=127.0.0.1:1"
BOTH = ("--execute", "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics", "list"], "use --bootstrap-server HOST:PORT, or --cluster NAME"),
        (["topics", "list", "-n", "shop"], "--namespace needs --cluster"),
        (["topics", "list", "--cluster=a", "--bootstrap-server=b:1"], "use one of them"),
        (
            ["topics", "list", AT, "--request-timeout=5"],
            "--request-timeout: '5' is not a whole",
        ),
        (
            ["topics", "list", AT, "--request-timeout=0s"],
            "--request-timeout: the time is zero",
        ),
        (["topics", "alter", "t", AT], "use --partitions, --config or --delete-config"),
        (
            ["topics", "alter", "t", AT, "--config=a"],
            "--config: 'a' has no value: write KEY=VALUE",
        ),
        (
            ["topics", "alter", "t", AT, "--config=a=1", "--delete-config=a"],
            "'a' is both set and deleted",
        ),
        (["topics", "lst"], "No such command 'lst'"),
        (["offsets", "get", AT, "--time=soon"], "--time: 'soon' is not a time"),
        (["offsets", "get", AT, "t:x"], "'x' is not a list of partitions"),
        (["groups", "reset", "g", AT, "--topic=t"], "no reset strategy is given"),
        (["groups", "reset", "g", AT, "--to-latest"], "use either --topic or --all-topics"),
        (
            ["groups", "reset", "g", AT, "--to-latest", "--all-topics", *BOTH],
            "--execute and --dry-run cannot be used together",
        ),
        (["groups", "describe", "g", AT, "--members", "--state"], "use one of them"),
        (
            ["produce", "t", AT, "--compression-codec=rar"],
            "'rar' is not a compression codec: use none, gzip",
        ),
        (["produce", "t", AT, "--key-separator="], "--key-separator: the text is empty"),
        (["consume", "t:0", AT, "--group=g"], "a group consumes all partitions"),
        (["top", AT, "--interval=1ms"], "--interval: 1 ms is too short: write 100ms or more"),
    ],
)
def test_wrong_usage_is_exit_status_2(alone: Chiplog, arguments: list[str], message: str) -> None:
    result = alone(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
