"""Every list of packages names all of them."""

import tomllib
from typing import Any

import pytest

from e2e.cluster.layout import CHECKOUT

PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
TOOLS = PROJECT["tool"]
TARGETS = TOOLS["hatch"]["build"]["targets"]
PACKAGES = sorted(path for path in CHECKOUT.glob("*/chiplog_*") if path.is_dir())
DIRECTORIES = {path.parent.name for path in PACKAGES}
PATHS = {str(path.relative_to(CHECKOUT)) for path in PACKAGES}


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        (TARGETS["wheel"]["packages"], PATHS),
        (TARGETS["sdist"]["only-include"], {*PATHS, "CHANGELOG.md"}),
        (TARGETS["wheel"]["dev-mode-dirs"], DIRECTORIES),
        (TOOLS["ruff"]["src"], {".", *DIRECTORIES}),
        (TOOLS["importlinter"]["root_packages"], {path.name for path in PACKAGES}),
    ],
    ids=["wheel", "sdist", "editable", "ruff", "import contracts"],
)
def test_a_list_is_complete(listed: list[str], wanted: set[str]) -> None:
    assert len(listed) == len(set(listed))
    assert set(listed) == wanted


@pytest.mark.parametrize(
    "listed",
    [
        TOOLS["mypy"]["files"],
        TOOLS["pytest"]["ini_options"]["testpaths"],
        [path.removeprefix("$MYPY_CONFIG_FILE_DIR/") for path in TOOLS["mypy"]["mypy_path"]],
    ],
    ids=["mypy", "pytest", "mypy's path"],
)
def test_a_list_has_all_directories_with_packages(listed: list[str]) -> None:
    assert set(listed) >= DIRECTORIES


def test_no_program_needs_what_develops_it() -> None:
    """`pip install chiplog[cli]` brings what the command line imports, and no test runner."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert PROJECT["project"]["dependencies"] == []
    for name, requirements in extras.items():
        if name != "dev":
            assert not [one for one in requirements if one.startswith(("pytest", "hypothesis"))]
    assert not [one for one in extras["cli"] if one.startswith("kopf")]
