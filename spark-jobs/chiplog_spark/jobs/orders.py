"""Verifies that the documents for a driver were written by the operator and not changed since.

A changed request could make the job read other brokers, and the pod template of executors
determines which pods the driver creates. Both are in ConfigMaps. The operator signs them with the
key that it gives to this driver (`signing`). Without a key they are not verified.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chiplog_core.spark.plain_job import TEMPLATE_FOLDER, TEMPLATE_KEY
from chiplog_core.spark.pods import WORK_FOLDER
from chiplog_core.spark.requests import Request
from chiplog_core.spark.signing import is_signed, signature_of
from chiplog_spark.refused import Refused

TEMPLATE: Final = Path(TEMPLATE_FOLDER, TEMPLATE_KEY)
"""The pod template of executors, for launchers that do not set it otherwise."""

TEMPLATE_CONF: Final = "spark.kubernetes.executor.podTemplateFile"


FORGED: Final = "Forged"
"""Reason if a signature is wrong: somebody else changed the request or the template."""


def read_request(path: Path, key: str) -> Request:
    """Read the job's request; with a `key`, verify its signature first.

    Raises `OSError`, `UnreadableDocument`, and `Refused`.
    """
    text = path.read_bytes()
    request = Request.from_json(text)
    _check(path, text, request.application, key)
    return request


def template_conf(
    application: str, key: str, template: Path = TEMPLATE, directory: Path = Path(WORK_FOLDER)
) -> Mapping[str, str]:
    """The Spark configuration that makes executors' pods from the template; empty if there is none.

    Spark gets a copy of the verified template in `directory`, since the mounted file may change
    during the job. Raises `Refused` and `OSError`.
    """
    if not template.exists():
        return {}
    text = template.read_bytes()
    _check(template, text, application, key)
    copy = directory / f"executor-{template.name}"
    copy.write_bytes(text)
    return {TEMPLATE_CONF: str(copy)}


def _check(path: Path, text: bytes, application: str, key: str) -> None:
    """Raises `Refused` if a file does not have the signature next to it.

    Without a key, which only the operator hands out, there is nothing to verify.
    """
    if not key:
        return
    signature_path = path.with_name(signature_of(path.name))
    signature = ""
    if signature_path.exists():
        signature = signature_path.read_text(errors="replace").strip()
    if not is_signed(key, application, text.decode(errors="replace"), signature, path.name):
        message = (
            f"{path} does not have the operator's signature for run {application}: somebody else "
            "changed it, or operator and Spark image have different versions; use the same version "
            "of both, check who may change ConfigMaps, and run the job again"
        )
        raise Refused(FORGED, message)
