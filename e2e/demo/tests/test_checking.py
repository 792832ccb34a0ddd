"""What the demo says when something is wrong: always expected, found, and what to do."""

import ast
from pathlib import Path

import pytest

from e2e.cluster.shell import CommandFailed
from e2e.demo import cli
from e2e.demo.checking import Broken, check, until

DEMO = Path(cli.__file__).parent


def test_an_answer_that_never_fits_is_named() -> None:
    asked: list[None] = []

    def ask() -> None:
        asked.append(None)
        raise AssertionError(f"{len(asked)} brokers")

    with pytest.raises(Broken) as broken:
        until("no brokers", ask, limit_s=0.05, every_s=0.001, remedy="add one")
    assert str(broken.value) == (
        f"expected: no brokers\nfound:    {len(asked)} brokers (after 0 s)\nto do:    add one"
    )


def test_an_answer_that_fits_late_is_as_good() -> None:
    answers = iter([CommandFailed(["kcat"], 1, "no broker"), KeyError("orders"), OSError()])

    def ask() -> str:
        for failed in answers:
            raise failed
        return "there"

    assert until("it is there", ask, every_s=0.001) == "there"


def test_what_cannot_become_right_ends_the_wait() -> None:
    def ask() -> None:
        check(False, expected="every order acknowledged", found="1 refused")

    with pytest.raises(Broken, match="1 refused"):
        until("orders are acknowledged", ask, limit_s=60)


def test_an_error_without_words_is_named() -> None:
    with (
        pytest.raises(
            Broken,
            match=r"expected: step “5\. Files” without an error\nfound:    AssertionError\nto do: ",
        ),
        cli.part("5. Files"),
    ):
        raise AssertionError


def test_a_step_that_breaks_ends_the_demo_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> None:
        raise Broken(expected="10002 records", found="10023")

    monkeypatch.setattr(cli, "run", run)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr().out
    assert ended.value.code == 1
    assert "expected: 10002 records\nfound:    10023\nto do:    look at `kubectl" in printed


@pytest.mark.parametrize("path", sorted(DEMO.glob("*.py")), ids=lambda path: path.name)
def test_no_assertion_is_without_words(path: Path) -> None:
    silent = [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert not silent, f"these would end the demo without a word: {', '.join(silent)}"
