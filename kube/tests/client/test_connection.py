"""Where the API server is and who we are, from the files of a pod."""

from pathlib import Path

import pytest

from chiplog_kube.connection import Connection, NoConnection, in_cluster
from chiplog_kube.finding import find


def in_pod(folder: Path, host: str = "10.0.0.1") -> Connection:
    for name, text in (("token", "t"), ("ca.crt", "pem"), ("namespace", "shop")):
        (folder / name).write_text(text)
    return in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}, folder)


def test_from_inside_a_pod(tmp_path: Path) -> None:
    found = in_pod(tmp_path)
    assert (found.server, found.ca, found.namespace) == ("https://10.0.0.1:443", b"pem", "shop")
    assert found.credentials.headers() == {"Authorization": "Bearer t"}
    assert in_pod(tmp_path, "fd00::1").server == "https://[fd00::1]:443"


def test_outside_a_pod(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="KUBERNETES_SERVICE_HOST"):
        find(None, {})
    environment = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(NoConnection, match="token"):
        in_cluster(environment, tmp_path)
