"""How far a job is, which its driver leaves beside the result while it works.

Nothing is decided by it: progress that cannot be parsed is ignored.
"""

from chiplog_core.manifest.documents import UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.spark_run import ApplicationStatus, RunProgress
from chiplog_core.problems import InvalidManifest

PROGRESS_KEY = "progress.json"
"""Of the ConfigMap that has the result."""

MAX_PROGRESS_BYTES = 4_096

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def progress_text(application: str, progress: RunProgress) -> str:
    """The text of `progress.json`."""
    return text_of({"application": application, **write(progress)})


def progress_of(text: object, *, application: str) -> RunProgress | None:
    """Parse `progress.json` of this application; None if it cannot be parsed or is of another
    one."""
    if not isinstance(text, str) or not text:
        return None
    try:
        value = object_of(text, "progress", limit_bytes=MAX_PROGRESS_BYTES)
        if value.pop("application", None) != application:
            return None
        found: RunProgress = read(object_shape(RunProgress), value, "progress", Unknown.IGNORE)
    except (UnreadableDocument, InvalidManifest):
        return None
    return found


def progress_words(application: ApplicationStatus) -> str:
    """The progress in words, with the attempt if it is not the first; empty if unknown."""
    found = []
    if application.attempt is not None and application.attempt > 1:
        found.append(f"attempt {application.attempt}")
    progress = application.progress
    if progress is not None:
        total = "" if progress.bytes_total is None else f" of about {_size(progress.bytes_total)}"
        found.append(f"{_size(progress.bytes)}{total}")
        found.append(f"{progress.partitions} of {progress.partitions_total} partitions")
    return ", ".join(found)


def _size(number: int) -> str:
    for size, unit in _UNITS:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
