"""A runner of `SparkApplication`s for tests: what Kubeflow's operator does, as far as we need it.

No package registry carries that operator. This one lists applications once a second, runs the
real `spark-submit --deploy-mode cluster` with each manifest's own fields, follows the driver's pod
and posts the real states. Nothing of it is part of Chiplog.

Bounded: so many applications at a time, each for so long; the others wait. What the runner does not
translate makes a submission fail, by name.
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
    """How much, and how long."""

    applications: int = 4
    """At a time."""
    submit_s: float = 180.0
    run_s: float = 1800.0
    """One attempt, from its submission to its end; image pulls and Pending count."""
    poll_s: float = 1.0


def install_definition(kubectl: Kubectl) -> None:
    """Make the API server offer SparkApplications."""
    kubectl("apply", "-f", str(DEFINITION))
    kubectl("wait", "--for=condition=Established", f"--filename={DEFINITION}", "--timeout=30s")


def remove_definition(kubectl: Kubectl) -> None:
    """Take it away, with all SparkApplications there are."""
    kubectl("delete", "--ignore-not-found", "-f", str(DEFINITION))


class SparkRunner:
    """Runs applications while it is entered as a context manager."""

    def __init__(self, kubeconfig: Path, limits: Limits | None = None) -> None:
        self.kubeconfig, self.limits = kubeconfig, limits or Limits()
        self.connection = find(kubeconfig)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="spark-runner", daemon=True)
        self.ended: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop)
        self.thread.join(60)
        if self.failure is not None:
            raise RuntimeError("the runner of Spark applications broke") from self.failure

    def _stop(self) -> None:
        if self.ended is not None:
            self.ended.cancel()

    def _work(self) -> None:
        try:
            self.ended = self.loop.create_task(self._run())
            with suppress(asyncio.CancelledError):
                self.loop.run_until_complete(self.ended)
        except Exception as error:  # noqa: BLE001 - raised by the context's exit
            self.failure = error
        finally:
            self.loop.close()

    async def _run(self) -> None:
        async with HttpKubeApi(self.connection) as api, asyncio.TaskGroup() as group:
            places = asyncio.Semaphore(self.limits.applications)
            known: dict[str, asyncio.Task[None]] = {}
            while True:
                with suppress(Unavailable, NotFound):  # nobody installed the definition yet
                    found = (await api.list_(APPLICATIONS)).items
                    there = {one["metadata"]["uid"]: one for one in found}
                    for uid, application in there.items():
                        if uid not in known and not application.get("status"):
                            one = Application(api, application, self.limits, self.kubeconfig)
                            known[uid] = group.create_task(one.run(places))
                    for uid in known.keys() - there.keys():
                        known.pop(uid).cancel()
                await asyncio.sleep(self.limits.poll_s)


class Application:
    """One application, from its first submission to its last attempt's end."""

    def __init__(self, api: KubeApi, manifest: Manifest, limits: Limits, kubeconfig: Path) -> None:
        self.api, self.manifest, self.limits, self.kubeconfig = api, manifest, limits, kubeconfig
        self.namespace = manifest["metadata"]["namespace"]
        self.name = manifest["metadata"]["name"]
        self.pod = driver_pod(manifest)
        self.progress = Progress(State.SUBMITTED)

    async def run(self, places: asyncio.Semaphore) -> None:
        async with places:
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
            why = f"the runner of tests waits no longer than {self.limits.run_s:.0f} s"
            await self._post(Progress(State.FAILED, why, self.progress.executions))
            await self._remove_driver()

    async def _submit(self) -> str | None:
        """Call spark-submit; what it printed where it failed, None where it worked."""
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
        try:
            return await self.api.get(kinds.PODS, self.namespace, self.pod)
        except NotFound:
            return None

    async def _remove_driver(self) -> None:
        """The next attempt's driver has the same name."""
        for _ in range(60):
            pod = await self._driver()
            if pod is None:
                return
            with suppress(NotFound):
                uid = pod["metadata"]["uid"]
                await self.api.delete(kinds.PODS, self.namespace, self.pod, uid=uid)
            await asyncio.sleep(self.limits.poll_s)

    async def _post(self, progress: Progress) -> None:
        """Write the application's status if it changed; where the application was deleted,
        nothing."""
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
        raise ApiError(f"the state of {self.namespace}/{self.name} could not be posted")


def server_of(kubeconfig: Path) -> str:
    """The API server's address."""
    return find(kubeconfig).server


def spark_home() -> Path:
    """Spark as PySpark brings it to this environment."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None, "pyspark is not installed: `make setup`"
    return Path(found.origin).parent


def environment(home: Path, kubeconfig: Path) -> dict[str, str]:
    """The environment of spark-submit, without this machine's own Spark or Kubernetes settings."""
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
