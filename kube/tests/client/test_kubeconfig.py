"""Kubeconfigs of the real world: several files and contexts, certificates, login programs, OIDC."""

import asyncio
import base64
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, Unavailable
from chiplog_kube.connection import Connection, NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.kubeconfig import connect
from tests.client.conftest import QUICK, Scripted
from tests.client.kubeconfigs import LoginProgram, encoded, kubeconfig, written

NOW_S = 1_700_000_000.0
TOPIC = {"metadata": {"name": "orders"}, "spec": {}}


def at(seconds: float) -> str:
    """A moment so many seconds from `NOW_S`, as login programs write it."""
    return datetime.fromtimestamp(NOW_S + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    def __init__(self) -> None:
        self.s = NOW_S

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def program(tmp_path: Path) -> LoginProgram:
    folder = tmp_path / "program"
    folder.mkdir()
    return LoginProgram(folder)


def asked(
    server: Scripted, connect_to: Callable[[str], Connection], times: int = 1, clock: Any = None
) -> list[str]:
    """The Authorization header of every request that so many questions come to."""

    async def scenario() -> None:
        async with server.serving() as address:
            connection = await asyncio.to_thread(connect_to, address)
            async with HttpKubeApi(connection, QUICK) as api:
                for _ in range(times):
                    await api.get(kinds.TOPICS, "shop", "orders")
                    if clock is not None:
                        clock.s += 60

    asyncio.run(scenario())
    return [one.headers.get("Authorization", "") for one in server.requests]


# ---- files, contexts ----


def test_server_namespace_and_certificates(tmp_path: Path) -> None:
    """As data, and as files beside the kubeconfig."""
    (tmp_path / "ca.crt").write_bytes(b"ca pem")
    for name, text in (("me.crt", b"certificate"), ("me.key", b"key")):
        (tmp_path / name).write_bytes(text)
    as_files = kubeconfig(
        {"client-certificate": "me.crt", "client-key": "me.key"},
        {"server": "https://192.0.2.1:6443/", "certificate-authority": "ca.crt"},
        namespace="shop",
    )
    as_data = kubeconfig(
        {
            "client-certificate-data": encoded(b"certificate"),
            "client-key-data": encoded(b"key"),
        },
        {"server": "https://192.0.2.1:6443", "certificate-authority-data": encoded(b"ca pem")},
    )
    for config, namespace in ((as_files, "shop"), (as_data, "default")):
        found = find(written(tmp_path, config), {})
        assert found.server == "https://192.0.2.1:6443"
        assert (found.ca, found.namespace) == (b"ca pem", namespace)
        assert found.login is not None
        assert found.login.identity.pem == b"certificate\nkey"
        assert found.headers() == {}
        assert not found.insecure


def test_what_is_said_of_tls_and_proxies(tmp_path: Path) -> None:
    cluster = {
        "server": "https://192.0.2.1:6443",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes.example",
        "proxy-url": "http://192.0.2.9:3128",
    }
    found = connect([written(tmp_path, kubeconfig(cluster=cluster))])
    assert (found.insecure, found.server_name) == (True, "kubernetes.example")
    assert found.proxy == "http://192.0.2.9:3128"
    with pytest.raises(NoConnection, match=r"socks5://x:1 is not supported: use an http://"):
        connect([written(tmp_path, kubeconfig(cluster={**cluster, "proxy-url": "socks5://x:1"}))])


def test_a_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://192.0.2.9:3128")
    path = written(tmp_path, kubeconfig(cluster={"server": "https://192.0.2.1:6443"}))
    assert connect([path]).proxy == "http://192.0.2.9:3128"
    monkeypatch.setenv("NO_PROXY", "192.0.2.1")
    assert connect([path]).proxy == ""


def test_several_files(tmp_path: Path) -> None:
    """The first one's context is the current one, the first of a name counts, paths are relative to
    the file that has them, and files that are missing or empty do not matter."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "me.crt").write_bytes(folder.encode())
        (tmp_path / folder / "me.key").write_bytes(b"key")
    own = {"client-certificate": "me.crt", "client-key": "me.key"}
    one = kubeconfig(own, {"server": "https://192.0.2.1"}, name="one")
    other = kubeconfig(own, {"server": "https://192.0.2.2"}, name="other")
    # A context of the first file, of a user of the second.
    mixed = {"name": "mixed", "context": {"cluster": "one", "user": "other"}}
    one["contexts"].append(mixed)
    other["contexts"].append({"name": "one", "context": {"cluster": "other", "user": "other"}})
    (tmp_path / "empty").touch()
    paths = [
        *(tmp_path / "missing", tmp_path / "empty"),
        *(written(tmp_path / "a", one), written(tmp_path / "b", other)),
    ]

    def found(context: str) -> tuple[str, bytes]:
        connection = connect(paths, context)
        assert connection.login is not None
        return connection.server, connection.login.identity.pem

    assert found("") == ("https://192.0.2.1", b"a\nkey")
    assert found("other") == ("https://192.0.2.2", b"b\nkey")
    assert found("mixed") == ("https://192.0.2.1", b"b\nkey")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": "nowhere"}, "no context named 'nowhere'; available: here$"),
        ({"current-context": ""}, "no context is selected; available: here$"),
        ({"clusters": []}, "no cluster named 'here'; available: none$"),
        ({"users": None}, "no user named 'here'"),
        ({"clusters": [{"name": "here", "cluster": {}}]}, "cluster 'here' has no server"),
        ({"users": [{"name": "here", "user": {"as": "root"}}]}, "impersonates 'root'"),
        ({"users": {"name": "a mapping"}}, "is not a valid kubeconfig"),
        (
            {"users": [{"name": "here", "user": {"auth-provider": {"name": "azure"}}}]},
            "auth-provider 'azure' failed.*with an exec plugin",
        ),
    ],
)
def test_what_a_kubeconfig_lacks_is_said(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(NoConnection, match=message):
        connect([written(tmp_path, kubeconfig() | change)])


def test_a_missing_or_odd_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="none: No such file or directory"):
        connect([tmp_path / "other", tmp_path / "none"])
    (tmp_path / "empty").touch()
    (tmp_path / "odd").write_text("a: [")
    for path in (
        tmp_path / "odd",
        tmp_path / "empty",
        written(tmp_path, ["a list"]),
        written(tmp_path, "text", "text"),
    ):
        with pytest.raises(NoConnection, match="is not a valid kubeconfig"):
            connect([path])
    missing = kubeconfig({"client-certificate": "gone.crt", "client-key": "gone.key"})
    missing["clusters"][0]["cluster"]["server"] = "https://192.0.2.1"
    with pytest.raises(NoConnection, match=r"cannot be used: .*gone\.crt"):
        connect([written(tmp_path, missing)])


def test_secrets_are_not_shown_and_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    user = {"client-certificate-data": encoded(b"hush"), "client-key-data": encoded(b"hush")}
    config = kubeconfig({"token": "hush", **user}, {"server": "https://192.0.2.1"})
    connection = connect([written(tmp_path, config)])
    assert connection.login is not None
    assert connection.login.identity.pem == b"hush\nhush"
    assert "hush" not in repr(connection)
    assert list(temporary.iterdir()) == []


# ---- who we are ----


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"tokenFile": "token"}, "Bearer of a file"),
        ({"tokenFile": "token", "token": "outdated"}, "Bearer of a file"),
        ({"username": "u", "password": "p"}, f"Basic {encoded(b'u:p')}"),
    ],
)
def test_tokens_and_passwords(
    server: Scripted, tmp_path: Path, user: dict[str, str], header: str
) -> None:
    (tmp_path / "token").write_text("of a file\n")
    server.then_json(TOPIC)
    path = tmp_path / "config"

    def connect_to(address: str) -> Connection:
        return connect([written(path.parent, kubeconfig(user, {"server": address}))])

    assert [one.lower() for one in asked(server, connect_to)] == [header.lower()]


def test_a_login_program(server: Scripted, tmp_path: Path, program: LoginProgram) -> None:
    """Run once for many requests; it gets its variables, and is told of the cluster if it asks."""
    program.gives({"token": "of-the-cloud"})
    user = program.user(env=[{"name": "PROFILE", "value": "shop"}], provideClusterInfo=True)
    server.then_json(TOPIC)
    found = asked(
        server,
        lambda address: connect([written(tmp_path, kubeconfig(user, {"server": address}))]),
        times=3,
    )
    assert found == ["Bearer of-the-cloud"] * 3
    assert program.runs == 1
    assert program.environment["PROFILE"] == "shop"
    told = json.loads(program.environment["KUBERNETES_EXEC_INFO"])
    assert told["spec"]["cluster"]["server"].startswith("http://127.0.0.1:")


def test_a_login_program_beside_its_kubeconfig(tmp_path: Path, program: LoginProgram) -> None:
    program.gives({"token": "t"})
    user = program.user(command=["./log-in"])
    script = tmp_path / "log-in"
    script.write_text(f"#!/bin/sh\nexec python3 {program.folder}/login.py\n")
    script.chmod(0o700)
    assert connect([written(tmp_path, kubeconfig(user))]).headers() == {"Authorization": "Bearer t"}


def test_a_token_is_renewed_before_it_expires(
    server: Scripted, tmp_path: Path, program: LoginProgram
) -> None:
    """Each lives for 150 s, and a minute lies between requests: the third is the second's last."""
    program.gives(*({"token": f"t{n}", "expirationTimestamp": at(150 * n)} for n in (1, 2, 3)))
    server.then_json(TOPIC)
    clock = Clock()

    def connect_to(address: str) -> Connection:
        path = written(tmp_path, kubeconfig(program.user(), {"server": address}))
        return connect([path], now_s=clock)

    found = asked(server, connect_to, times=6, clock=clock)
    assert found == [f"Bearer {one}" for one in ("t1", "t1", "t1", "t2", "t2", "t3")]
    assert program.runs == 3


def test_a_token_that_the_server_takes_no_longer(
    server: Scripted, tmp_path: Path, program: LoginProgram
) -> None:
    """Revoked early, or the cloud's clock goes otherwise: one 401, the program again, no error."""
    program.gives({"token": "t1", "expirationTimestamp": at(3600)}, {"token": "t2"})
    server.then_status(401, "Unauthorized").then_json(TOPIC)

    def connect_to(address: str) -> Connection:
        path = written(tmp_path, kubeconfig(program.user(), {"server": address}))
        return connect([path], now_s=Clock())

    assert asked(server, connect_to, times=2) == ["Bearer t1", "Bearer t2", "Bearer t2"]
    assert program.runs == 2


def test_many_requests_at_once_log_in_again_once(
    server: Scripted, tmp_path: Path, program: LoginProgram
) -> None:
    program.gives({"token": "t1"}, {"token": "t2"})

    async def by_token(request: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        if request.headers["Authorization"] == "Bearer t2":
            return web.json_response(TOPIC)
        return web.json_response({"message": "who?"}, status=401)

    server.then(by_token)

    async def scenario() -> None:
        async with server.serving() as address:
            path = written(tmp_path, kubeconfig(program.user(), {"server": address}))
            connection = await asyncio.to_thread(connect, [path])
            async with HttpKubeApi(connection) as api:
                await asyncio.gather(*(api.get(kinds.TOPICS, "shop", "orders") for _ in range(8)))

    asyncio.run(scenario())
    assert program.runs == 2


def test_a_login_that_nobody_takes_is_an_error_and_not_a_loop(
    server: Scripted, tmp_path: Path, program: LoginProgram
) -> None:
    server.then_status(401, "Unauthorized", "no such user")

    def connect_to(address: str) -> Connection:
        return connect([written(tmp_path, kubeconfig(program.user(), {"server": address}))])

    program.gives({"token": "always the same"})
    with pytest.raises(Forbidden, match="no such user"):
        asked(server, connect_to)
    assert len(server.requests) == 1, "the same token again is of no use"
    program.gives({"token": "t1"}, {"token": "t2"}, {"token": "t3"}, {"token": "t4"})
    with pytest.raises(Forbidden, match="no such user"):
        asked(server, connect_to)
    assert len(server.requests) == 3


def test_a_renewal_that_fails(server: Scripted, tmp_path: Path, program: LoginProgram) -> None:
    """As long as the old token is good, it is used; then the program's words are the error."""
    program.gives({"token": "t1", "expirationTimestamp": at(100)}, "the session has ended")
    server.then_json(TOPIC)
    clock = Clock()

    def connect_to(address: str) -> Connection:
        path = written(tmp_path, kubeconfig(program.user(), {"server": address}))
        connection = connect([path], now_s=clock)
        clock.s += 95
        return connection

    with pytest.raises(Unavailable, match=r"login program '.*' failed: .*the session has ended"):
        asked(server, connect_to, times=2, clock=clock)
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer t1"]


def test_the_context_of_the_beginning_stays(
    server: Scripted, tmp_path: Path, program: LoginProgram
) -> None:
    """Somebody switches contexts while we run: no token of another cluster goes to this one."""
    program.gives({"token": "t1"}, {"token": "t2"})
    server.then_status(401).then_json(TOPIC)

    def connect_to(address: str) -> Connection:
        config = kubeconfig(program.user(), {"server": address})
        connection = connect([written(tmp_path, config)])
        other = kubeconfig({"token": "of another cluster"}, name="other")
        both = {key: config[key] + other[key] for key in ("clusters", "users", "contexts")}
        written(tmp_path, {**config, **both, "current-context": "other"})
        return connection

    assert asked(server, connect_to) == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (("not logged in: run cloud login",), {}, "failed: .*not logged in: run cloud login$"),
        (({},), {}, "missing token or clientCertificateData"),
        (({"clientCertificateData": "c"},), {}, "missing clientKeyData"),
        (({"token": "t"},), {"apiVersion": "client.authentication.k8s.io/v1beta1"}, "not match"),
        (
            ({},),
            {"command": "cloud-login-that-is-not-there", "installHint": "get it from example.com"},
            "'cloud-login-that-is-not-there' failed: .*No such file.*; get it from example.com$",
        ),
    ],
)
def test_why_a_login_program_failed(
    tmp_path: Path,
    program: LoginProgram,
    capfd: pytest.CaptureFixture[str],
    given: tuple[Any, ...],
    more: dict[str, Any],
    message: str,
) -> None:
    program.gives(*given)
    user = program.user()
    user["exec"].update(more)
    with pytest.raises(NoConnection, match=message):
        connect([written(tmp_path, kubeconfig(user))])
    assert capfd.readouterr().err == "", "it is said once, by whoever shows the error"


def test_a_login_program_does_not_read_what_is_piped_to_us(
    tmp_path: Path, program: LoginProgram
) -> None:
    """As in `echo record | chiplog produce orders --cluster demo`."""
    program.gives({"token": "t"})
    user = program.user()
    script = program.folder / "login.py"
    script.write_text("import sys; sys.stdin.read()\n" + script.read_text())
    path = written(tmp_path, kubeconfig(user))
    code = (
        "import sys; from pathlib import Path; from chiplog_kube.kubeconfig import connect;"
        f"print(connect([Path({str(path)!r})]).headers(), sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="a record", capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'Authorization': 'Bearer t'} a record\n"


def test_a_login_program_that_gives_a_certificate(tmp_path: Path, program: LoginProgram) -> None:
    program.gives(
        {
            "clientCertificateData": "certificate",
            "clientKeyData": "key",
            "expirationTimestamp": at(100),
        }
    )
    config = kubeconfig(program.user(), {"server": "https://192.0.2.1"})
    login = connect([written(tmp_path, config)]).login
    assert login is not None
    assert (login.identity.pem, login.identity.headers) == (b"certificate\nkey", {})


# ---- OIDC ----


def id_token(expires_at_s: float) -> str:
    """As far as anybody looks into it here: nobody checks its signature but the API server."""
    parts: tuple[dict[str, Any], ...] = ({"alg": "none"}, {"exp": expires_at_s}, {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def oidc(token: str, issuer: str = "https://127.0.0.1:1") -> dict[str, Any]:
    config = {
        "client-id": "kubernetes",
        "client-secret": "s",
        "id-token": token,
        "idp-issuer-url": issuer,
        "refresh-token": "r1",
    }
    return {"auth-provider": {"name": "oidc", "config": config}}


def test_an_oidc_token_that_is_good(tmp_path: Path) -> None:
    token = id_token(datetime.now(UTC).timestamp() + 3600)
    found = connect([written(tmp_path, kubeconfig(oidc(token)))])
    assert found.headers() == {"Authorization": f"Bearer {token}"}


def test_an_oidc_provider_that_does_not_answer(tmp_path: Path) -> None:
    path = written(tmp_path, kubeconfig(oidc(id_token(0))))
    before = path.read_text()
    with pytest.raises(NoConnection, match=r"login by OIDC failed: .*log in again as you do for"):
        connect([path])
    assert path.read_text() == before


def test_files_stay_as_private_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, kubeconfig({"token": "t"}))
    path.chmod(0o600)
    before = yaml.safe_load(path.read_text())
    connect([path])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text()) == before
