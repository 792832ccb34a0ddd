"""Chiplog without Kubernetes: `python -m chiplog_broker --standalone`."""

import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import ClassVar

from e2e.kafka.ports import LOOPBACK
from e2e.kafka.process import BrokerProcess, write_properties


class StandaloneBroker(BrokerProcess):
    """One Chiplog broker with file-backed metadata."""

    title: ClassVar[str] = "Chiplog"
    options: tuple[str, ...] = ()
    """Further options of the command line."""

    @property
    def logs(self) -> Path:
        return self.home / "data"

    def prepare(self) -> None:
        """Write the broker's properties file, before each start."""
        values = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "chiplog.durability": "Fsync" if self.fsync else "PageCache",
            **self.settings,
        }
        write_properties(self.properties, values)

    def command(self) -> list[str]:
        health, metrics = (f"{LOOPBACK}:{port}" for port in self.side_ports)
        return [
            *(sys.executable, "-m", "chiplog_broker", "--standalone", str(self.home)),
            *("--config", str(self.properties)),
            *self.options,
            *("--health-address", health, "--metrics-address", metrics),
        ]

    def is_ready(self) -> bool:
        """Whether the broker's /readyz answers 200."""
        address = f"http://{LOOPBACK}:{self.side_ports[0]}/readyz"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
