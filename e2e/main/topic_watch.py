"""When an object appears, turns Ready or says something else, to the millisecond, by
`kubectl get --watch`.
"""

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
    """A watch on the Topics of a namespace, or on another kind, from when the block is entered."""

    def __init__(
        self, kubectl: Kubectl, kind: str = "ct", line: str = LINE, how: str = "--watch-only"
    ) -> None:
        """`line` is what is printed of each object: its name, `=`, and what `until` compares.

        With `how` as --watch, what there is comes first, and every change after it.
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
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.put((time.monotonic(), line.strip()))

    def until(self, name: str, status: str = "", limit_s: float = 30) -> float:
        """The moment when an object of this name was seen, Ready where `status` is "True"."""
        deadline_s = time.monotonic() + limit_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                when_s, line = self.lines.get(timeout=left_s)
            except queue.Empty:
                break
            if line.startswith(f"{name}={status}"):
                return when_s
        raise TimeoutError(f"kubectl get --watch saw no {name} {status} within {limit_s:.0f} s")

    def __enter__(self) -> Self:
        self.thread.start()
        # Nothing says that the watch is there; a request after a moment's wait comes after it.
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
