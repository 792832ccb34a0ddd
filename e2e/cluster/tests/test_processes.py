"""Which processes have ended, and which has a socket that several bound one after the other."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from e2e.cluster import processes

# The first thread ends by itself (exit, 60); the other one goes on.
LEADER_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def state(pid: int) -> str:
    fields = (processes.PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[0]


def test_a_process_has_ended_when_its_last_thread_has() -> None:
    with subprocess.Popen([sys.executable, "-c", LEADER_ENDS]) as child:
        one = processes.process(child.pid)
        assert one is not None
        try:
            processes.wait_until("the first thread ended", lambda: state(child.pid) == "Z", 30)
            assert one.alive
        finally:
            child.send_signal(signal.SIGKILL)
        processes.wait_until("all ended", lambda: not one.alive, 30)


def test_a_socket_belongs_to_the_process_that_bound_it_last(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    ours = processes.process(os.getpid())
    assert ours is not None
    assert not processes.listens_on(ours, path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        assert processes.listens_on(ours, path)
        assert not processes.listens_on(ours, tmp_path / "other.sock")
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            other = processes.process(child.pid)
            assert other is not None
            assert not processes.listens_on(other, path)
            child.communicate(b"\n", timeout=30)
