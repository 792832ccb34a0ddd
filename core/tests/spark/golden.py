"""What each launcher is given, as files a person can read.

`python -m tests.spark.golden` writes them anew; look at the difference before it is committed.
"""

from pathlib import Path

import yaml

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.spark.application import Application
from chiplog_core.spark.choice import launch
from tests.spark import applications

FOLDER = Path(__file__).parent / "manifests"
LAUNCHERS = (SparkLauncher.KUBEFLOW, SparkLauncher.APACHE, SparkLauncher.JOB)


def rendered(launcher: SparkLauncher, application: Application) -> str:
    """Every object of a launch, in the order to make them in."""
    made = launch(launcher, application)
    return "\n".join(
        "---\n" + yaml.dump(one, Dumper=_Plain, sort_keys=False, width=100)
        for one in (*made.before, made.launched)
    )


def path(launcher: SparkLauncher, name: str) -> Path:
    """The file of a launcher and an application."""
    return FOLDER / f"{launcher.value.lower()}-{name}.yaml"


class _Plain(yaml.SafeDumper):
    """Writes what stands twice in full, and text of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Plain.add_representer(str, _text)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for launcher in LAUNCHERS:
        for name, application in applications.ALL.items():
            path(launcher, name).write_text(rendered(launcher, application), encoding="utf-8")
