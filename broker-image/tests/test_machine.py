"""What the machine and the pod say of the page cache."""

from pathlib import Path

import pytest

from chiplog_broker.ports import machine
from chiplog_broker.ports.machine import SystemMachine


def test_another_pod_or_another_start_of_the_kernel_is_another_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "boot_id"
    kernel.write_text("one-start\n")
    monkeypatch.setattr(machine, "BOOT_ID", kernel)
    before = SystemMachine(tmp_path / "log", "pod-1").boot_id()
    assert SystemMachine(tmp_path / "log", "pod-1").boot_id() == before
    assert SystemMachine(tmp_path / "log", "pod-2").boot_id() != before
    kernel.write_text("another-start\n")
    assert SystemMachine(tmp_path / "log", "pod-1").boot_id() != before


def test_where_the_kernel_does_not_say_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "BOOT_ID", tmp_path / "not-there")
    assert SystemMachine(tmp_path / "log", "pod-1").boot_id() == ""
