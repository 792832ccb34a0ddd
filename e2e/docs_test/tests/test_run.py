"""Pages run in a real shell: what fits, what does not, and where it ends."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from e2e.docs_test import __main__ as program
from e2e.docs_test.run import run
from e2e.docs_test.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with closing(Shell(tmp_path, os.environ)) as one:
        yield one


def page(*lines: str, note: str = "") -> str:
    before = f"<!-- docs-test: {note} -->\n" if note else ""
    return "\n".join([f"{before}```console", *lines, "```", ""])


def test_a_page_is_one_session(shell: Shell) -> None:
    text = page(
        "$ export WHO=orders && cd /",
        '$ pwd; echo "it\'s $WHO" >&2',
        "/",
        "it's orders",
        "$ cat",
        "$ printf 'no newline'",
        "no newline",
    )

    outcomes = list(run(text, shell))

    assert [one.difference for one in outcomes] == [""] * 4
    assert all(one.ended_well for one in outcomes)


def test_an_output_that_was_changed_is_reported_and_the_page_goes_on(
    shell: Shell, tmp_path: Path
) -> None:
    text = page("$ echo 1 | tee -a typed", "2", "$ echo 3", "3")

    outcomes = list(run(text, shell, until_s=2))

    assert [bool(one.difference) for one in outcomes] == [True, False]
    assert "-2" in outcomes[0].difference
    assert "+1" in outcomes[0].difference
    assert (tmp_path / "typed").read_text() == "1\n", "typed once"


def test_nothing_is_typed_after_a_command_that_failed(shell: Shell, tmp_path: Path) -> None:
    outcomes = list(run(page("$ (exit 3)", "$ touch typed"), shell))

    assert [(one.status, one.ended_well) for one in outcomes] == [(3, False)]
    assert not (tmp_path / "typed").exists()


def test_a_command_that_must_fail_does(shell: Shell) -> None:
    (refused,) = run(page("$ (echo no; exit 1)", "no", note="fails"), shell)
    (accepted,) = run(page("$ true", note="fails"), shell)

    assert refused.ended_well
    assert not refused.difference
    assert not accepted.ended_well


def test_some_commands_are_typed_again_until_they_print_it(shell: Shell) -> None:
    text = page("$ echo x >>file; wc -l <file", "2", note="until")

    (outcome,) = run(text, shell)
    assert not outcome.difference
    (outcome,) = run(text, shell, until_s=0)
    assert outcome.difference, "not for ever"


def test_a_command_that_hangs_or_ends_the_shell_is_an_error(tmp_path: Path) -> None:
    with closing(Shell(tmp_path, os.environ)) as one, pytest.raises(TimeoutError, match="sleep 60"):
        one.run("echo begun; sleep 60", limit_s=0.2)
    with (
        closing(Shell(tmp_path, os.environ)) as one,
        pytest.raises(RuntimeError, match="ended the shell"),
    ):
        one.run("exit 0")


def test_write_puts_what_was_printed_into_the_page_and_a_second_run_finds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.md"
    file.write_text(page("$ echo new", "old", "$ echo 5s", "7s"))

    assert program.type_page(file, write=False) == 1
    assert "old" in file.read_text()
    assert program.type_page(file, write=True) == 0
    assert file.read_text() == page("$ echo new", "new", "$ echo 5s", "7s")
    assert program.type_page(file, write=False) == 0
    assert "page.md:2: the output differs from the page" in capsys.readouterr().out


def test_a_page_that_stops_half_way_is_no_success_of_write(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(page("$ false"))

    assert program.type_page(file, write=True) == 1
