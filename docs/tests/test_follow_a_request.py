"""The page that follows requests through the code names files that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "follow-a-request.md"


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`(chiplog_\w+/[\w/]+\.py)`", PAGE.read_text())
    assert len(named) > 60
    missing = [path for path in named if len(list(ROOT.glob(f"*/{path}"))) != 1]
    assert not missing, "name on the page what took the place of these"
