"""Files for Python's `ssl`."""

import sys
import tempfile
from pathlib import Path

import pytest

from chiplog_kube.pem_file import pem_file


def test_it_has_the_content_while_the_context_lasts() -> None:
    with pem_file(b"a key") as path:
        assert Path(path).read_bytes() == b"a key"
    assert not Path(path).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is on a disk")
def test_it_is_on_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/none")
    with pem_file(b"a key") as path:
        assert Path(path).read_bytes() == b"a key"
