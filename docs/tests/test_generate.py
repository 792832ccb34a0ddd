"""The generated parts of the docs say what the code says."""

from pathlib import Path

import pytest

from docs import generate


def test_generated_parts_are_up_to_date() -> None:
    assert generate.drifted(generate.FOLDER) == []


def test_drift_is_found_and_mended(tmp_path: Path) -> None:
    page = tmp_path / "groups.md"
    right = (generate.FOLDER / "groups.md").read_text()
    page.write_text(right.replace("--> Stable", "--> Unstable"))

    assert generate.drifted(tmp_path) == [page]
    generate.write(tmp_path)
    assert page.read_text() == right


def test_a_page_that_lost_its_markers_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "groups.md").write_text("# Groups\n")

    with pytest.raises(ValueError, match=r"groups.md must have one part states"):
        generate.drifted(tmp_path)
