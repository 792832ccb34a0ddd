"""What others wrote is shown by a terminal, and never carried out."""

import json
from typing import Any

import pytest

from chiplog_cli import printing, records, tables
from chiplog_cli.printing import Format

TITLE = "\x1b]0;owned\x07"
CLEAR = "\x9b2J"
TURNED = "\u202egnp.exe"
EVIL = f"a{TITLE}b{CLEAR}c{TURNED}\r\x08\x7f"


def is_harmless(text: str) -> bool:
    return all(one in "\n\t" or (one.isprintable() and ord(one) != 0x202E) for one in text)


def test_a_cell_is_one_line_of_what_can_be_seen() -> None:
    shown = tables.table(["NAME"], [[EVIL], ["two\nlines\tand a tab"], ["größer 🦆"]])
    assert is_harmless(shown)
    assert shown.splitlines()[2:] == ["two\\nlines\\tand a tab", "größer 🦆"]
    assert "\\x1b]0;owned\\x07b\\x9b2J" in shown


def test_a_record_is_one_line() -> None:
    record = records.Record(
        topic="t", partition=0, offset=7, timestamp_ms=1, key=b"\xff\n", value=EVIL.encode()
    )
    shown = records.text(record)
    assert is_harmless(shown)
    assert shown.count("\n") == 0
    assert shown.startswith("Partition:0\tOffset:7\t\\xff\\n\ta\\x1b")


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML, Format.TABLE])
def test_nothing_that_is_printed_is_carried_out(form: Format, capsys: Any) -> None:
    printing.show(form, {"client": EVIL}, lambda: f"one\n{EVIL}\ttwo")
    printing.show_next(form, {"client": EVIL}, lambda: f"one\n{EVIL}\ttwo")
    printing.remark(EVIL)
    captured = capsys.readouterr()
    assert is_harmless(captured.out)
    assert is_harmless(captured.err)
    if form is Format.JSON:
        assert json.loads(captured.out.splitlines()[-1]) == {"client": EVIL}
