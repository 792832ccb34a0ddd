"""The generated parts of the docs say what the code says."""

import shutil
from pathlib import Path

import pytest

from docs import generate


def test_generated_parts_are_up_to_date() -> None:
    assert generate.drifted(generate.FOLDER) == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder, to be changed."""
    folder = tmp_path / "docs"
    shutil.copytree(generate.FOLDER, folder)
    return folder


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("groups.md", "the leader brings the assignment |", "nobody |"),
        ("flaws.md", "| growth by repartitioning |", "| magic |"),
        ("images/failover.svg", "connection ends", ""),
        ("reference/topic.md", "integer 1 to 2,000", "integer"),
        ("reference/metrics.md", "Members of the group.", "Members."),
        ("reference/commands.md", "--from-beginning", "--from-begin"),
    ],
)
def test_drift_is_found_and_mended(copy: Path, name: str, right: str, wrong: str) -> None:
    page = copy / name
    as_it_is = page.read_text()
    assert right in as_it_is
    page.write_text(as_it_is.replace(right, wrong))

    assert generate.drifted(copy) == [page]
    generate.write(copy)
    assert page.read_text() == as_it_is


def test_a_page_that_is_missing_is_drift(copy: Path) -> None:
    (copy / "reference" / "broker.md").unlink()

    assert generate.drifted(copy) == [copy / "reference" / "broker.md"]


def test_a_page_that_lost_its_markers_is_an_error(copy: Path) -> None:
    (copy / "groups.md").write_text("# Groups\n")

    with pytest.raises(ValueError, match=r"groups.md must have one part states"):
        generate.drifted(copy)
