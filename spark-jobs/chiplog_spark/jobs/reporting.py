"""Writes a job's result where the operator reads it.

The operator creates the ConfigMap before it starts the job, so the driver's ServiceAccount needs
only the permission to patch that object. If the object is gone, the result is not needed any more.
If the API server does not answer, the request is repeated for some minutes.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chiplog_core.model.spark_result import RESULT_KEY, Result
from chiplog_core.model.spark_run import RunProgress
from chiplog_core.spark.progress import PROGRESS_KEY, progress_text
from chiplog_core.spark.requests import Request
from chiplog_core.spark.signing import KEY_FOLDER, KEY_NAME, SIGNATURE_KEY, signature
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Conflict, KubeApi, Unavailable
from chiplog_kube.clock import Clock, SystemClock
from chiplog_kube.connection import NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_spark.progress import Report, to_log_only

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "chiplog-spark"
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0, 30.0, 30.0, 30.0)
"""Pauses between attempts. With timeouts they take about five minutes: longer than a restart of an
API server, and not so long that the driver occupies its executors for nothing."""


REPORT_LIMIT_S: Final = 5.0


class NotReported(Exception):  # noqa: N818 - named for what it says
    """The result could not be written; the message says why."""


async def write(
    api: KubeApi,
    clock: Clock,
    request: Request,
    text: str,
    key: str = "",
    pauses_s: Sequence[float] = PAUSES_S,
) -> None:
    """Write a result's text to the request's ConfigMap.

    With a `key`, the text's signature is written next to it. If the API server is not available,
    the write is repeated after each of `pauses_s`. Raises `NotReported`.
    """
    data = {RESULT_KEY: text}
    if key:
        data[SIGNATURE_KEY] = signature(key, request.application, text)
    patch = {"data": data}
    config_map = request.result.config_map
    for pause_s in (*pauses_s, None):  # None: no pause follows the last attempt
        try:
            await api.patch(
                kinds.CONFIG_MAPS, request.namespace, config_map, patch, field_manager=FIELD_MANAGER
            )
        except (Unavailable, Conflict) as error:
            if pause_s is None:
                raise NotReported(f"the API server does not answer: {error}") from error
            log.warning("result not written yet", extra={"why": str(error), "again_in_s": pause_s})
            await clock.sleep(pause_s)
        except (ApiError, OSError) as error:
            message = f"ConfigMap {request.namespace}/{config_map}: {type(error).__name__}: {error}"
            raise NotReported(message) from error
        else:
            return


async def to_config_map(request: Request, result: Result) -> None:
    """Write a result to the ConfigMap that the request names; raises `NotReported`."""
    try:
        connection = find(None)
    except NoConnection as error:
        raise NotReported(f"it is not known how to connect to the API server: {error}") from error
    async with HttpKubeApi(connection) as api:
        await write(api, SystemClock(), request, result.to_json(), own_key())


def own_key(directory: Path = Path(KEY_FOLDER)) -> str:
    """The key with which operator and driver sign what they send each other, from its mounted file.

    Empty in a job that the operator did not launch. Raises `NotReported` if it cannot be read.
    """
    try:
        return (directory / KEY_NAME).read_text(encoding="ascii")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        raise NotReported(f"{directory / KEY_NAME}: {error}") from error


def progress_reporter(request: Request) -> Report:
    """A `Report` that writes progress to the ConfigMap of the result.

    Outside of Kubernetes it does nothing: progress is only logged then.
    """
    try:
        connection = find(None)
    except NoConnection:
        return to_log_only

    async def send_progress(text: str) -> None:
        async with HttpKubeApi(connection) as api:
            await write_progress(api, request, text)

    def report_progress(progress: RunProgress) -> None:
        text = progress_text(request.application, progress)
        asyncio.run(asyncio.wait_for(send_progress(text), REPORT_LIMIT_S))

    return report_progress


async def write_progress(api: KubeApi, request: Request, text: str) -> None:
    """Write the progress to the request's ConfigMap. Raises `ApiError`.

    It does not retry, since the next report follows soon.
    """
    patch = {"data": {PROGRESS_KEY: text}}
    name = request.result.config_map
    await api.patch(kinds.CONFIG_MAPS, request.namespace, name, patch, field_manager=FIELD_MANAGER)


def to_file(path: Path, result: Result) -> None:
    """Write a result to a file, for jobs that run outside of Kubernetes; raises `NotReported`."""
    try:
        path.write_text(result.to_json(), encoding="ascii")
    except OSError as error:
        raise NotReported(f"{path}: {error.strerror}") from error
