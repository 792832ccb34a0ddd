"""Runs `SparkApplication`s for tests, in place of Kubeflow's Spark operator.

No package registry has that operator. This runner lists applications once a second, runs the real
`spark-submit --deploy-mode cluster` with the fields of each manifest, watches the driver's pod and
writes the same states as Kubeflow's operator. It is not part of Chiplog.

A limited number of applications runs at a time, each with a time limit; the others wait. A field
that the runner does not support makes the submission fail, with the field's name in the error.
"""

import asyncio
import importlib.util
import json
import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, NotFound, Unavailable
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.kinds import Kind
from e2e.cluster import layout, spark_states
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.spark_states import Progress, State
from e2e.cluster.spark_submission import Manifest, Unsubmittable, driver_pod, submission
from e2e.kafka import debian

DEFINITION: Final = layout.CHECKOUT / "e2e" / "cluster" / "manifests" / "sparkapplications.yaml"
APPLICATIONS: Final = Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications")
MANAGER: Final = "spark-runner"
# spark-submit runs for seconds: compiling fully does not pay.
SUBMIT_OPTIONS: Final = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the runner."""

    applications: int = 4
    """How many applications run at the same time."""
    submit_s: float = 180.0
    """How long spark-submit may take."""
    run_s: float = 1800.0
    """How long an attempt may take from its submission to its end, image pulls included."""
    poll_s: float = 1.0


def install_definition(kubectl: Kubectl) -> None:
    """Install the CRD of SparkApplications."""
    kubectl("apply", "-f", str(DEFINITION))
    kubectl("wait", "--for=condition=Established", f"--filename={DEFINITION}", "--timeout=30s")


def remove_definition(kubectl: Kubectl) -> None:
    """Delete the CRD of SparkApplications, and with it all SparkApplications."""
    kubectl("delete", "--ignore-not-found", "-f", str(DEFINITION))


class SparkRunner:
    """Runs all SparkApplications, in a thread, while its `with` block runs.

    The block's end raises `RuntimeError` if the runner itself failed.
    """

    def __init__(self, kubeconfig: Path, limits: Limits | None = None) -> None:
        self.kubeconfig, self.limits = kubeconfig, limits or Limits()
        self.connection = find(kubeconfig)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="spark-runner", daemon=True)
        self.runner: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop)
        self.thread.join(60)
        if self.failure is not None:
            raise RuntimeError("the runner of Spark applications failed") from self.failure

    def _stop(self) -> None:
        """Called in the loop: cancel the runner's task, if it has begun."""
        if self.runner is not None:
            self.runner.cancel()

    def _work(self) -> None:
        """The body of the thread: runs the loop until `_stop`, and keeps an exception in
        `failure`."""
        try:
            self.runner = self.loop.create_task(self._run())
            with suppress(asyncio.CancelledError):
                self.loop.run_until_complete(self.runner)
        except Exception as error:  # noqa: BLE001 - raised by the context's exit
            self.failure = error
        finally:
            self.loop.close()

    async def _run(self) -> None:
        """Start a task for each new application, and cancel those of deleted applications."""
        async with HttpKubeApi(self.connection) as api, asyncio.TaskGroup() as group:
            free_slots = asyncio.Semaphore(self.limits.applications)
            tasks: dict[str, asyncio.Task[None]] = {}
            while True:
                with suppress(Unavailable, NotFound):  # NotFound: the CRD is not installed
                    found = (await api.list_(APPLICATIONS)).items
                    applications = {one["metadata"]["uid"]: one for one in found}
                    for uid, application in applications.items():
                        # One with a status was begun by an earlier runner.
                        if uid not in tasks and not application.get("status"):
                            one = Application(api, application, self.limits, self.kubeconfig)
                            tasks[uid] = group.create_task(one.run(free_slots))
                    for uid in tasks.keys() - applications.keys():
                        tasks.pop(uid).cancel()
                await asyncio.sleep(self.limits.poll_s)


class Application:
    """One application, from its first submission to the end of its last attempt."""

    def __init__(self, api: KubeApi, manifest: Manifest, limits: Limits, kubeconfig: Path) -> None:
        self.api, self.manifest, self.limits, self.kubeconfig = api, manifest, limits, kubeconfig
        self.namespace = manifest["metadata"]["namespace"]
        self.name = manifest["metadata"]["name"]
        self.pod = driver_pod(manifest)
        self.progress = Progress(State.SUBMITTED)

    async def run(self, free_slots: asyncio.Semaphore) -> None:
        """Make one attempt after the other, as the application's restartPolicy says."""
        async with free_slots:
            while True:
                await self._attempt()
                step = spark_states.next_step(self.manifest["spec"], self.progress)
                if step.again_after_s is None:
                    return
                if self.progress.state is State.FAILED:
                    await self._post(spark_states.pending(self.progress))
                await asyncio.sleep(step.again_after_s)
                await self._remove_driver()

    async def _attempt(self) -> None:
        """Submit once and follow the driver to its end; every state is written to the status."""
        output = await self._submit()
        if output is not None:
            await self._post(spark_states.not_submitted(self.progress, output))
            return
        await self._post(spark_states.submitted(self.progress))
        try:
            async with asyncio.timeout(self.limits.run_s):
                while self.progress.state in {State.SUBMITTED, State.RUNNING, State.UNKNOWN}:
                    await asyncio.sleep(self.limits.poll_s)
                    with suppress(Unavailable):
                        await self._post(spark_states.followed(self.progress, await self._driver()))
        except TimeoutError:
            why = f"the driver did not end within {self.limits.run_s:.0f} s, the runner's limit"
            await self._post(Progress(State.FAILED, why, self.progress.executions))
            await self._remove_driver()

    async def _submit(self) -> str | None:
        """Call spark-submit.

        Returns None if it succeeded, else what it printed or why it failed.
        """
        with TemporaryDirectory() as directory:
            try:
                call = submission(self.manifest, server_of(self.kubeconfig), Path(directory))
            except (Unsubmittable, KeyError) as problem:
                return f"{type(problem).__name__}: {problem}"
            for path, template in call.templates.items():
                path.write_text(json.dumps(template))
            home = spark_home()
            process = await asyncio.create_subprocess_exec(
                str(home / "bin" / "spark-submit"),
                *call.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment(home, self.kubeconfig),
            )
            try:
                async with asyncio.timeout(self.limits.submit_s):
                    output, _ = await process.communicate()
            except TimeoutError:
                return f"spark-submit did not end within {self.limits.submit_s:.0f} s"
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            text = output.decode(errors="replace")
            return text or "spark-submit failed" if process.returncode else None

    async def _driver(self) -> Manifest | None:
        """The driver's pod; None if it does not exist."""
        try:
            return await self.api.get(kinds.PODS, self.namespace, self.pod)
        except NotFound:
            return None

    async def _remove_driver(self) -> None:
        """Delete the driver's pod and wait until it is gone: the next attempt's has the same name.

        After 60 polls it returns in any case.
        """
        for _ in range(60):
            pod = await self._driver()
            if pod is None:
                return
            with suppress(NotFound):
                uid = pod["metadata"]["uid"]
                await self.api.delete(kinds.PODS, self.namespace, self.pod, uid=uid)
            await asyncio.sleep(self.limits.poll_s)

    async def _post(self, progress: Progress) -> None:
        """Write the application's status if it changed; does nothing if the application was
        deleted.

        Raises `ApiError` if the API server is unavailable for 60 attempts.
        """
        if progress == self.progress and progress.submissions:
            return
        self.progress = progress
        patch = {"status": spark_states.status_of(progress, self.pod)}
        for _ in range(60):
            try:
                await self.api.patch(
                    *(APPLICATIONS, self.namespace, self.name, patch),
                    field_manager=MANAGER,
                    subresource="status",
                )
            except Unavailable:
                await asyncio.sleep(self.limits.poll_s)
            except NotFound:
                return
            else:
                return
        raise ApiError(
            f"the status of SparkApplication {self.namespace}/{self.name} was not written: the API "
            "server was unavailable 60 times"
        )


def server_of(kubeconfig: Path) -> str:
    """The API server's address in a kubeconfig."""
    return find(kubeconfig).server


def spark_home() -> Path:
    """The directory of the Spark that PySpark has installed into this Python environment."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None, "pyspark is not installed: `make setup`"
    return Path(found.origin).parent


def environment(home: Path, kubeconfig: Path) -> dict[str, str]:
    """The environment variables of spark-submit, without this machine's Spark and Kubernetes
    settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "HADOOP_", "KUBE"))
    }
    java = shutil.which(debian.program("java"))
    assert java is not None
    given: dict[str, Any] = {
        "JAVA_HOME": Path(java).resolve().parents[1],
        "SPARK_HOME": home,
        "KUBECONFIG": kubeconfig,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": SUBMIT_OPTIONS,
    }
    return inherited | {name: str(value) for name, value in given.items()}
