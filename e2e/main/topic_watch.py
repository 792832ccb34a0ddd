"""Measures by `kubectl get --watch` when an object appears or changes its status, to the
millisecond."""

import queue
import subprocess
import threading
import time
from types import TracebackType
from typing import Self

from e2e.cluster import build
from e2e.cluster.kubectl import Kubectl

LINE = (
    "jsonpath={.metadata.name}={.status.conditions[?(@.type=='Ready')].status}={.status.topicId}\n"
)


class TopicWatch:
    """A watch on the Topics of a namespace, or on another kind, while the `with` block runs."""

    def __init__(
        self, kubectl: Kubectl, kind: str = "ct", line: str = LINE, how: str = "--watch-only"
    ) -> None:
        """`line` is the output format of an object: its name, `=`, and the text for `until`.

        `how` is --watch-only for changes only, or --watch for existing objects first.
        """
        self.child = subprocess.Popen(
            [
                *(str(build.program("kubectl")), f"--kubeconfig={kubectl.kubeconfig}"),
                *(f"--namespace={kubectl.namespace}", "get", kind, how, "-o", line),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self) -> None:
        """Put each printed line with its time into `lines`; the body of the thread."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.put((time.monotonic(), line.strip()))

    def until(self, name: str, status: str = "", limit_s: float = 30) -> float:
        """Wait for an object with this name, whose line continues after `=` with `status`.

        Returns when the line came, by the monotonic clock. With the default format, status "True"
        means Ready. Raises `TimeoutError` after `limit_s`.
        """
        deadline_s = time.monotonic() + limit_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                when_s, line = self.lines.get(timeout=left_s)
            except queue.Empty:
                break
            if line.startswith(f"{name}={status}"):
                return when_s
        raise TimeoutError(
            f"kubectl get --watch printed no line {name}={status}… within {limit_s:.0f} s"
        )

    def __enter__(self) -> Self:
        self.thread.start()
        # kubectl does not report when its watch has begun: a second is enough for that.
        time.sleep(1)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.child.kill()
        self.child.wait()
        self.thread.join()
        if self.child.stdout is not None:
            self.child.stdout.close()
