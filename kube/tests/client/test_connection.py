"""Where the API server is and who we are, from the files that say so."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_kube.connection import Connection, NoConnection, find, from_kubeconfig, in_cluster

CA, CERTIFICATE, KEY = b"ca pem", b"certificate pem", b"key pem"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(**user: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://192.0.2.1:6443/",
                    "certificate-authority-data": encoded(CA),
                },
            },
            {"name": "plain", "cluster": {"server": "http://127.0.0.1:8001"}},
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
            {"name": "there", "context": {"cluster": "plain", "user": "u"}},
        ],
    }


def written(folder: Path, value: Any, *, as_json: bool = False) -> Path:
    path = folder / "config"
    path.write_text(json.dumps(value) if as_json else yaml.safe_dump(value))
    return path


@pytest.mark.parametrize("as_json", [True, False])
def test_a_kubeconfig_with_a_client_certificate(tmp_path: Path, as_json: bool) -> None:
    config = kubeconfig(
        **{"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)}
    )
    found = find(written(tmp_path, config, as_json=as_json), {})
    assert found.server == "https://192.0.2.1:6443"
    assert (found.ca, found.certificate, found.key) == (CA, CERTIFICATE, KEY)
    assert found.namespace == "shop"
    assert found.credentials.headers() == {}


def test_a_kubeconfig_with_files_and_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-token\n")
    found = from_kubeconfig(written(tmp_path, kubeconfig(tokenFile="token")), "there")
    assert found.server == "http://127.0.0.1:8001"
    assert found.credentials.headers() == {"Authorization": "Bearer secret-token"}
    assert found.ssl_context() is None
    assert found.namespace == "default"


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    config = kubeconfig(**{"token": "hush", "client-key-data": encoded(b"hush")})
    assert "hush" not in repr(from_kubeconfig(written(tmp_path, config)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": "nowhere"}, "no context named 'nowhere'"),
        ({"clusters": []}, "no cluster named 'c'"),
        ({"users": None}, "no user named 'u'"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "has no server"),
        ({"users": [{"name": "u", "user": {"exec": {"command": "x"}}}]}, "log in by a program"),
    ],
)
def test_what_a_kubeconfig_lacks_is_said(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(NoConnection, match=message):
        from_kubeconfig(written(tmp_path, kubeconfig() | change))


def test_a_missing_or_odd_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="No such file"):
        from_kubeconfig(tmp_path / "none")
    with pytest.raises(NoConnection, match="is no kubeconfig"):
        from_kubeconfig(written(tmp_path, ["a list"]))


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
