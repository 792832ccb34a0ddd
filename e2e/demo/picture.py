"""`python -m e2e.demo.picture [BOOTSTRAP]`: draws what `chiplog top` shows of a cluster under load.

Without an address it uses the demo's cluster. The topic `orders` must exist: in the meantime the
demo's load is written to it, and two consumers of the group `billing` read it.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from e2e.cluster import layout
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import run
from e2e.cluster.target import current_target
from e2e.demo.cli import NAMESPACE
from e2e.demo.first_program import TOPIC
from e2e.demo.load import Load
from e2e.main.broker_cluster import BrokerClusterUnderTest

PICTURE: Final = layout.CHECKOUT / "docs" / "images" / "top.svg"
COMMAND: Final = ("top", "--interval", "5s", "--iterations", "3")
CONSUMERS: Final = 2
FONT: Final = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)
"""Fonts that rich refers to in each picture, and that a viewer would have to download."""


def main(arguments: list[str]) -> None:
    """Record the output of `chiplog top` under load and write the picture into the docs."""
    bootstrap = arguments[0] if arguments else of_the_demo()
    with ExitStack() as load:
        load.enter_context(Load(bootstrap, first_number=0))
        for _ in range(CONSUMERS):
            load.enter_context(consumer(bootstrap))
        printed = run(*chiplog(*COMMAND, bootstrap=bootstrap), timeout_s=120)
    PICTURE.write_text(picture(last_screen(printed)))
    print(f"{PICTURE.relative_to(layout.CHECKOUT)}:\n{last_screen(printed)}")


def of_the_demo() -> str:
    """The bootstrap address of the demo's cluster."""
    return BrokerClusterUnderTest(Kubectl(current_target().kubeconfig, NAMESPACE)).bootstrap


def chiplog(*arguments: str, bootstrap: str) -> tuple[str, ...]:
    """The command line of this environment's `chiplog` with these arguments."""
    program = Path(sys.executable).with_name("chiplog")
    return (str(program), *arguments, "--bootstrap-server", bootstrap)


@contextmanager
def consumer(bootstrap: str) -> Iterator[None]:
    """A member of the group `billing` that reads the orders while the block runs."""
    command = chiplog("consume", TOPIC, "--group", "billing", bootstrap=bootstrap)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait(30)


def last_screen(printed: str) -> str:
    """The last of the printed screens, from its header on."""
    begin = printed.rindex("BROKER  ")
    return printed[begin:].strip()


def picture(shown: str) -> str:
    """An SVG of a terminal with the command and this output, without external files."""
    lines = ["$ chiplog top", "", *shown.splitlines()]
    console = Console(
        record=True, file=StringIO(), width=max(map(len, lines)) + 2, legacy_windows=False
    )
    console.print(Text("\n".join(lines), no_wrap=True))
    drawn = console.export_svg(title="chiplog top", unique_id="top")
    drawn = FONT.sub("", drawn).replace("Fira Code, monospace", "monospace")
    return "".join(f"{line.rstrip()}\n" for line in drawn.strip().splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])
