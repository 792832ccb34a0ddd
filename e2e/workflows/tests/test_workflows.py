"""What a public CI would run: its workflows are well-formed and call targets that exist.

They have not run: there is no such CI here.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import build, layout
from e2e.cluster.shell import CommandFailed, run

GITHUB = layout.CHECKOUT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
MAKEFILE = (layout.CHECKOUT / "Makefile").read_text()
TARGETS = set(re.findall(r"(?m)^([a-z0-9-]+):", MAKEFILE))
MAKE = re.compile(r"\bmake ([a-z0-9-]+)")


def actionlint(*paths: Path) -> str:
    """What the linter finds. Without shellcheck, whichever this machine has."""
    return run(str(build.program("actionlint")), "-shellcheck=", "-pyflakes=", *map(str, paths))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.dist
@pytest.mark.timeout(900)
def test_the_linter_finds_nothing() -> None:
    assert WORKFLOWS
    assert actionlint(*WORKFLOWS) == ""


@pytest.mark.dist
@pytest.mark.timeout(900)
def test_the_linter_finds_what_is_wrong(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("matrix.python", "matrix.snake"))
    with pytest.raises(CommandFailed, match=r'property "snake" is not defined'):
        actionlint(broken)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_every_step_is_an_action_or_calls_make(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    called = {target for command in commands for target in MAKE.findall(command)}
    assert called
    assert called <= TARGETS
    preparing = [command for command in commands if not MAKE.search(command)]
    assert all(command.startswith("sudo apt-get update &&") for command in preparing)


@pytest.mark.parametrize("form", FORMS, ids=lambda one: one.name)
def test_a_form_asks_something(form: Path) -> None:
    """As GitHub wants issue forms: a name, a description, and fields with an id and a label."""
    about = yaml.safe_load(form.read_text())
    assert about["name"]
    assert about["description"]
    fields = [one for one in about["body"] if one["type"] != "markdown"]
    ids = [one["id"] for one in fields]
    assert ids
    assert len(ids) == len(set(ids))
    assert all(one["attributes"]["label"] for one in fields)
    assert any(one.get("validations", {}).get("required") for one in fields)


def test_hooks_before_a_commit_are_programs_of_the_makefile() -> None:
    """Nothing comes from elsewhere, and what a hook says `make check` says too."""
    config = yaml.safe_load((layout.CHECKOUT / ".pre-commit-config.yaml").read_text())
    (local,) = config["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        program = hook["entry"].removesuffix(" --force-exclude")
        if target := MAKE.fullmatch(program):
            assert target[1] in TARGETS
        else:
            assert program.replace(".venv/bin/", "\t$(BIN)/") in MAKEFILE
