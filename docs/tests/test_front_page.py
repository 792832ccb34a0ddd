"""What somebody who comes to the repository reads first is whole."""

import re
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()


def test_the_row_custom_resources_names_every_kind() -> None:
    (row,) = re.findall(r"^\| Custom resources \| .*$", README, re.MULTILINE)
    definitions = [yaml.safe_load(path.read_text()) for path in (CHECKOUT / "crds").glob("*.yaml")]
    kinds = {str(one["spec"]["names"]["kind"]) for one in definitions}
    assert kinds, "no definitions were found"
    assert kinds <= {*re.findall(r"`(\w+)`", row)}


def test_the_first_screen_has_a_recording_and_three_commands() -> None:
    first = README[: README.index("\n## ")]
    (picture,) = re.findall(r"!\[[^]]+\]\((docs/images/[^)]+)\)", first)
    drawn = (CHECKOUT / picture).read_text()
    assert "@keyframes" in drawn
    assert "kubectl delete pod" in drawn
    (commands,) = re.findall(r"^```\n(.*?)^```$", first, re.MULTILINE | re.DOTALL)
    assert len(commands.splitlines()) == 3
