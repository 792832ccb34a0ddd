"""The progress of a job, which its driver writes next to the result while it runs.

It is only shown to users; nothing is decided by it. Progress that cannot be parsed is ignored.
"""

from chiplog_core.manifest.documents import UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.spark_run import ApplicationStatus, RunProgress
from chiplog_core.problems import InvalidManifest

PROGRESS_KEY = "progress.json"
"""Key with the progress in the ConfigMap that gets the result."""

MAX_PROGRESS_BYTES = 4_096

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def progress_text(application: str, progress: RunProgress) -> str:
    """The text of `progress.json`."""
    return text_of({"application": application, **write(progress)})


def progress_of(text: object, *, application: str) -> RunProgress | None:
    """Parse `progress.json`. None if it cannot be parsed, or if another application wrote it."""
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
    """The progress in words, like "attempt 2, 1.5 GB of about 4.0 GB, 3 of 8 partitions"; empty if
    unknown. The attempt is left out if it is the first."""
    found = []
    if application.attempt is not None and application.attempt > 1:
        found.append(f"attempt {application.attempt}")
    progress = application.progress
    if progress is not None:
        total = "" if progress.bytes_total is None else f" of about {_size(progress.bytes_total)}"
        found.append(f"{_size(progress.bytes)}{total}")
        found.append(f"{progress.partitions} of {progress.partitions_total} partitions")
    return ", ".join(found)


def _size(count: int) -> str:
    """A number of bytes in the largest unit that fits, like `1.5 GB`."""
    for bytes_per_unit, unit in _UNITS:
        if count >= bytes_per_unit:
            return f"{count / bytes_per_unit:.1f} {unit}"
    return f"{count} bytes"
