"""The tutorial itself, as far as it can be judged without a cluster."""

import re

from e2e.cluster import layout
from e2e.docs_test.__main__ import TUTORIAL
from e2e.docs_test.compare import OPEN, difference
from e2e.docs_test.page import commands

PAGE = TUTORIAL.read_text()
FILE = re.compile(r"(?:-f|install \S+) ((?:examples|charts)/\S+)")


def test_every_command_of_the_tutorial_is_typed() -> None:
    typed = "\n".join(one.typed for one in commands(PAGE))

    prompts = [line for line in PAGE.splitlines() if line.startswith("$ ")]
    assert len(prompts) == len(commands(PAGE))
    for begun in ("make cluster-up", "helm install", "kubectl delete pod", "kubectl patch ct"):
        assert begun in typed
    assert commands(PAGE)[-1].typed == "make cluster-down", "nothing is left running"


def test_the_files_that_it_names_are_there() -> None:
    named = {path for one in commands(PAGE) for path in FILE.findall(one.typed)}

    assert {"examples/orders.yaml", "examples/replay.yaml", "charts/chiplog-operator"} <= named
    assert not [path for path in named if not (layout.CHECKOUT / path).exists()]


def test_what_it_says_is_printed_fits_itself_and_not_another_output() -> None:
    for one in commands(PAGE):
        assert one.output is not None
        if one.output.strip():
            assert difference(one.output, one.output) == "", one.typed
            assert difference(one.output, "something else\n"), one.typed


def test_little_is_left_open() -> None:
    printed = [line for one in commands(PAGE) for line in (one.output or "").splitlines() if line]
    assert sum(OPEN in line for line in printed) < len(printed) / 4
