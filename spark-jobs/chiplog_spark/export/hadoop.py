"""Implements `Files` with Hadoop's FileSystem in Spark's driver: local disks, HDFS, object stores.

If renaming replaces an existing file (local disks) or copies it (object stores), two runs at the
same moment could both consider themselves the only one; see docs/export.md.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from chiplog_spark.refused import Refused

DENIED = ("Permission denied", "Mkdirs failed", "Read-only file system")
"""Parts of the messages by which a local disk refuses a write. HDFS and object stores have
exceptions whose names begin with `Access`."""


class HadoopFiles:
    """`Files` for every scheme in the session's Hadoop configuration."""

    def __init__(self, session: SparkSession) -> None:
        context = session.sparkContext
        # PySpark has no API for files, so this uses Hadoop's through py4j.
        self._jvm: Any = context._jvm  # noqa: SLF001
        self._conf: Any = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def _locate(self, path: str) -> tuple[Any, Any]:
        """The file system of a path, and Hadoop's form of the path. Raises `Refused`."""
        try:
            hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
            return hadoop_path.getFileSystem(self._conf), hadoop_path
        except Py4JJavaError as error:
            why = error.java_exception.getMessage()
            raise Refused(
                "TargetUnusable",
                f"job.target: {path}: {why}; set it to a directory like file:///exports or"
                " s3a://bucket/exports, in a file system that the image supports",
            ) from error

    def names(self, directory: str) -> list[str]:
        """The sorted names of a directory's direct entries; empty if it does not exist."""
        system, path = self._locate(directory)
        if not system.exists(path):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(path))

    def tree(self, directory: str) -> Mapping[str, int]:
        """Sizes in bytes by path relative to the directory, of all files below it.

        Empty if the directory does not exist.
        """
        system, path = self._locate(directory)
        if not system.exists(path):
            return {}
        root = system.makeQualified(path).toUri().getPath()
        sizes = {}
        listed = system.listFiles(path, True)  # True: recursively
        while listed.hasNext():
            status = listed.next()
            relative_path = status.getPath().toUri().getPath()[len(root) + 1 :]
            sizes[relative_path] = int(status.getLen())
        return sizes

    def exists(self, path: str) -> bool:
        system, hadoop_path = self._locate(path)
        return bool(system.exists(hadoop_path))

    def read(self, path: str) -> str:
        """The whole content of a file, decoded as UTF-8."""
        system, hadoop_path = self._locate(path)
        stream = system.open(hadoop_path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """Write a temporary file, and rename it: so the path has the whole text or no file."""
        system, final = self._locate(path)
        if system.exists(final):
            return False
        _, temporary = self._locate(
            f"{final.getParent().toString()}/.{final.getName()}.{uuid4().hex}"
        )
        try:
            stream = system.create(temporary, False)
            stream.write(text.encode())
            stream.close()
        except Py4JJavaError as error:
            raise refused_or_broken(path, error) from error
        if system.rename(temporary, final):
            return True
        # Another run has created the file in the meantime.
        system.delete(temporary, False)
        return False

    def move(self, source: str, destination: str) -> None:
        """Rename a file, creating the destination's directory; raises `OSError` if that fails."""
        system, source_path = self._locate(source)
        _, target = self._locate(destination)
        system.mkdirs(target.getParent())
        if not system.rename(source_path, target):
            raise OSError(f"{source} could not be renamed to {destination}")

    def remove(self, path: str) -> None:
        """Delete a file, or a directory with all its content; a missing path is no error."""
        system, hadoop_path = self._locate(path)
        system.delete(hadoop_path, True)  # True: recursively


def refused_or_broken(path: str, error: Py4JJavaError) -> Exception:
    """The error for a failed write: `Refused` without permission to write, otherwise `OSError`."""
    why = str(error.java_exception.getMessage())
    kind = error.java_exception.getClass().getSimpleName()
    if kind.startswith("Access") or any(part in why for part in DENIED):
        remedy = "allow the job's user to write to this directory, or set another one"
        return Refused("TargetUnusable", f"job.target: {path}: {why}; {remedy}")
    return OSError(f"{path}: {kind}: {why}")
