"""Which launcher runs a cluster's applications, and which objects are created for it.

`Auto` chooses a Spark operator whose API the API server serves, else a plain Job. If the spec names
a Spark operator that is not installed, that is reported as a problem; no other is used instead.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.problems import Problem, Reason
from chiplog_core.spark import access, apache, kubeflow, plain_job
from chiplog_core.spark.application import Application, Owner
from chiplog_core.spark.pods import Manifest

LAUNCHER_FIELD = "spec.spark.launcher"

KIND_OF = {
    SparkLauncher.KUBEFLOW: (kubeflow.API_VERSION, kubeflow.KIND),
    SparkLauncher.APACHE: (apache.API_VERSION, apache.KIND),
    SparkLauncher.JOB: (plain_job.API_VERSION, plain_job.KIND),
}
"""`apiVersion` and kind of the object that each launcher runs."""

_OPERATORS = (SparkLauncher.KUBEFLOW, SparkLauncher.APACHE)
"""The Spark operators; Auto chooses the first one that is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The objects of an application, in the order in which to create them."""

    before: tuple[Manifest, ...]
    """The objects that the application needs: ServiceAccounts, their permissions, a pod template.
    The operator creates the ConfigMaps of the request and the result elsewhere."""
    launched: Manifest
    """The `SparkApplication` or Job, whose status shows the state of the run."""


def choose(wanted: SparkLauncher, offered: Collection[str]) -> SparkLauncher | Problem:
    """The launcher to use, never Auto; or a problem.

    `offered` has the `group/version` pairs for which the API server serves a `SparkApplication`.
    It must come from a successful API discovery: after a failed one, Auto would choose a Job even
    if a Spark operator is installed.
    """
    if wanted is SparkLauncher.JOB:
        return wanted
    if wanted is not SparkLauncher.AUTO:
        return wanted if _api_version(wanted) in offered else _missing(wanted, offered)
    for launcher in _OPERATORS:
        if _api_version(launcher) in offered:
            return launcher
    return SparkLauncher.JOB


def launch(launcher: SparkLauncher, application: Application) -> Launch:
    """The objects to create. `launcher` comes from `choose`. Raises `ValueError` for Auto."""
    permissions = access.objects(application)
    if launcher is SparkLauncher.KUBEFLOW:
        return Launch(before=permissions, launched=kubeflow.spark_application(application))
    if launcher is SparkLauncher.APACHE:
        return Launch(before=permissions, launched=apache.spark_application(application))
    if launcher is SparkLauncher.JOB:
        *needed, job = plain_job.objects(application)
        return Launch(before=(*permissions, *needed), launched=job)
    raise ValueError("Auto is not a launcher: call choose() first")


def owned_by(launched: Owner, application: Application) -> Application:
    """The application with the launched object as the owner of all its other objects. They are
    created again with this owner, so that they are deleted together with the launched object,
    also when its time to live is over."""
    return replace(application, owner=launched)


def _api_version(launcher: SparkLauncher) -> str:
    return KIND_OF[launcher][0]


def _missing(wanted: SparkLauncher, offered: Collection[str]) -> Problem:
    """The problem if the API server does not serve the chosen launcher's `SparkApplication`."""
    api_version = _api_version(wanted)
    group = api_version.partition("/")[0]
    others = sorted(version for version in offered if version.partition("/")[0] == group)
    only_others = f", only {', '.join(others)}" if others else ""
    return Problem(
        LAUNCHER_FIELD,
        f"is {wanted.value}, but the API server has no SparkApplication of {api_version}"
        f"{only_others}",
        "install or update that Spark operator, or set it to Auto or Job",
        Reason.NOT_SUPPORTED,
    )
