"""Kubeconfigs as kubectl reads them, by the `kubernetes` library: for what runs outside of a pod.

Files are merged, login programs run and identity providers are asked by that library. What it does
otherwise than kubectl is evened out here: the first of several files chooses the context, a user's
certificates lie beside the file that names the user, a token file counts before a token, a login
that fails is an error, and an identity provider without a CA of its own is checked against the
system's.

The library is imported with the first kubeconfig. Pods have none, and most images no such library.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from chiplog_kube.connection import Connection, Identity, NoConnection

RENEW_LIMIT_S: Final = 120.0
"""A login program may run this long. Requests wait for it, so it counts as failed then."""
RETRY_S: Final = 10.0
"""Pause after a renewal that failed while the identity has not expired."""
MARGIN: Final = 0.1
MARGIN_LIMIT_S: Final = 300.0
"""An identity is renewed when a tenth of its remaining time is left, but at most five minutes."""
STDIN: Final = 0
SECTIONS: Final = ("clusters", "contexts", "users")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a kubeconfig contains now, and the identity that its login returned."""

    connection: Connection
    identity: Identity
    expires_at_s: float | None
    """In seconds since 1970; None if it is not known or the identity does not expire."""
    context: str


@dataclass(slots=True)
class KubeconfigLogin:
    """`Login` of a kubeconfig: loaded again before its identity expires, and after a 401."""

    load: Callable[[], Loaded]
    """Reads everything again, in the same context; may run a program, so it waits."""
    loaded: Loaded = field(repr=False)
    now_s: Callable[[], float] = time.time
    version: int = 1
    _due_at_s: float | None = field(init=False)
    _renewing: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._due_at_s = self._due()

    @property
    def identity(self) -> Identity:
        return self.loaded.identity

    async def fresh(self) -> int:
        """See `Login.fresh`."""
        if self._is_due():
            async with self._renewing:
                if self._is_due():
                    await self._renew_in_time()
        return self.version

    async def refused(self, version: int) -> bool:
        """See `Login.refused`."""
        async with self._renewing:
            if version == self.version:
                before = self.identity
                await self._renew()
                if self.identity == before:
                    return False
        return True

    async def _renew_in_time(self) -> None:
        """Renew the identity. If that fails, the present one is used until it expires, and
        renewing is tried again after `RETRY_S`. Raises `NoConnection` if it has expired."""
        try:
            await self._renew()
        except NoConnection:
            expires_at_s = self.loaded.expires_at_s
            if expires_at_s is None or expires_at_s <= self.now_s():
                raise
            self._due_at_s = self.now_s() + RETRY_S

    async def _renew(self) -> None:
        """Load the kubeconfig again, which may run its login program. The version is raised if the
        identity changed. Raises `NoConnection`."""
        try:
            async with asyncio.timeout(RENEW_LIMIT_S):
                found = await asyncio.to_thread(self.load)
        except TimeoutError as error:
            raise NoConnection(f"logging in took more than {RENEW_LIMIT_S:.0f} s") from error
        if found.identity != self.identity:
            self.version += 1
        self.loaded = found
        self._due_at_s = self._due()

    def _is_due(self) -> bool:
        return self._due_at_s is not None and self.now_s() >= self._due_at_s

    def _due(self) -> float | None:
        """When to renew the identity; None if it does not expire."""
        expires_at_s = self.loaded.expires_at_s
        if expires_at_s is None:
            return None
        left_s = expires_at_s - self.now_s()
        return expires_at_s - min(MARGIN_LIMIT_S, max(0.0, left_s * MARGIN))


def connect(
    paths: Sequence[Path], context: str = "", now_s: Callable[[], float] = time.time
) -> Connection:
    """Connect as kubectl does with these files. An empty `context` means their current one.

    May run a login program and wait for it. Raises `NoConnection`.
    """
    first = load(paths, context)
    login = KubeconfigLogin(lambda: load(paths, first.context), first, now_s)
    return replace(first.connection, login=login)


def load(paths: Sequence[Path], context: str = "") -> Loaded:
    """Read the files, and log in. An empty `context` means their current one.

    Raises `NoConnection` with what is missing, or why the login failed.
    """
    library = _library()
    merger = _merged(library, paths)
    shown = ":".join(map(str, paths))
    entries = {section: merger.config.value[section] for section in SECTIONS}
    name = context or _current(merger.config_files.values())
    chosen = _named(entries, "context", name, shown)
    cluster = _named(entries, "cluster", str(chosen.get("cluster") or ""), shown)
    user = _named(entries, "user", str(chosen.get("user") or ""), shown)
    if not cluster.get("server"):
        raise NoConnection(f"{shown}: cluster {chosen['cluster']!r} has no server")
    if user.get("as"):
        raise NoConnection(
            f"{shown}: user {chosen['user']!r} impersonates {user['as']!r}, which is not "
            "supported: choose a context whose user does not impersonate"
        )
    with TemporaryDirectory() as folder, _ca_of_identity_provider(user, merger) as persist:
        given = {
            "active_context": name,
            "config_base_path": None,  # paths are relative to the file that has them
            "config_persister": persist,
            "temp_file_path": folder,
        }
        configuration, expiry = _logged_in(library, merger.config, user, given)
        return _loaded(configuration, expiry, chosen, cluster, name)


def _library() -> ModuleType:
    """The module of the package kubernetes that reads kubeconfigs. Raises `NoConnection`."""
    try:
        from kubernetes.config import kube_config  # noqa: PLC0415 - see above
    except ImportError as error:
        raise NoConnection(
            "kubeconfigs are read by the Python package kubernetes, which is not installed: "
            "`pip install kubernetes`, or run in a pod"
        ) from error
    module: ModuleType = kube_config
    return module


def _merged(library: ModuleType, paths: Sequence[Path]) -> Any:
    """The kubeconfig merged by the library from the files that exist and are not empty."""
    try:
        existing = [path for path in paths if path.exists()]
        existing = [path for path in existing if path.stat().st_size] or existing
    except OSError as error:
        raise NoConnection(f"{error.filename}: {error.strerror}") from error
    if not existing:
        raise NoConnection(f"{', '.join(map(str, paths))}: No such file or directory")
    try:
        merger = library.KubeConfigMerger(os.pathsep.join(map(str, existing)))
        for entry in merger.config.value["users"]:
            found = _with_absolute_paths(entry.value, Path(entry.path).absolute().parent)
            entry.value = _preferring_token_file(found)
    except OSError as error:
        raise NoConnection(f"{error.filename}: {error.strerror}") from error
    except Exception as error:  # the library checks no types, so any exception is possible
        names = ", ".join(map(str, existing))
        why = str(error) or type(error).__name__
        raise NoConnection(f"{names} is not a valid kubeconfig: {why}") from error
    return merger


def _with_absolute_paths(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The user with absolute paths of certificates. The library would resolve them relative to
    the cluster's file."""
    user = entry.get("user") or {}
    relative = {
        key: str(folder / user[key])
        for key in ("client-certificate", "client-key")
        if user.get(key) and not Path(user[key]).is_absolute()
    }
    if user and not relative:
        return entry  # the same object that is written back after a renewal
    return {**entry, "user": {**user, **relative}}


def _preferring_token_file(entry: dict[str, Any]) -> dict[str, Any]:
    """The user without its token, if it has a token file, which takes precedence in kubectl."""
    user = entry.get("user") or {}
    if not user.get("tokenFile") or "token" not in user:
        return entry
    return {**entry, "user": {name: user[name] for name in user if name != "token"}}


def _current(files: Any) -> str:
    """The current context. As with kubectl, the first file that sets one wins."""
    for path in files:
        if path.get("current-context"):
            return str(path["current-context"])
    return ""


def _named(
    entries: Mapping[str, Sequence[Any]], what: str, name: str, shown: str
) -> dict[str, Any]:
    """The entry of a kubeconfig's section with this name. `what` is cluster, context or user, and
    `shown` the files, for messages. A context without a user has an empty one, which is valid.
    Raises `NoConnection`."""
    if not name and what == "user":
        return {}
    for entry in entries[f"{what}s"]:
        if entry.value.get("name") == name:
            found: dict[str, Any] = entry.value.get(what) or {}
            return found
    known = ", ".join(sorted(str(entry.value.get("name")) for entry in entries[f"{what}s"]))
    if not name:
        raise NoConnection(f"{shown}: no {what} is selected; available: {known or 'none'}")
    raise NoConnection(f"{shown} has no {what} named {name!r}; available: {known or 'none'}")


def _logged_in(
    library: ModuleType, config: Any, user: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[Any, float | None]:
    """The library's `Configuration` after the login, and when that expires. Raises
    `NoConnection`."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - see above

    configuration, log_lines = Configuration(), list[str]()
    try:
        loader = library.KubeConfigLoader(config, **given)
        with _collected_log_lines(library) as log_lines, _stdin_from_terminal_only():
            loader.load_and_set(configuration)
    except Exception as error:
        # A login may fail in many ways: programs, JSON, HTTP, missing certificates.
        raise NoConnection(_why(user, [*log_lines, str(error) or type(error).__name__])) from error
    has_login = "exec" in user or "auth-provider" in user
    if has_login and not configuration.api_key and not configuration.cert_file:
        raise NoConnection(_why(user, log_lines))
    expiry = getattr(loader, "expiry", None)
    return configuration, None if expiry is None else expiry.timestamp()


def _why(user: Mapping[str, Any], log_lines: Sequence[str]) -> str:
    """The message for a failed login: why it failed, from the library's log, and what to do."""
    why = "; ".join(line.strip() for line in log_lines if line.strip()) or "it returned no token"
    if program := user.get("exec"):
        hint = str(program.get("installHint") or "").strip()
        return f"the login program {program.get('command')!r} failed: {why}" + (
            f"; {hint}" if hint else ""
        )
    if provider := user.get("auth-provider"):
        name = provider.get("name")
        if name == "oidc":
            return f"the login by OIDC failed: {why}; log in again as you do for kubectl"
        return (
            f"auth-provider {name!r} failed: {why}; kubectl 1.26 removed auth providers: let your "
            "cloud's command line write the kubeconfig again, with an exec plugin"
        )
    return f"the kubeconfig cannot be used: {why}"


@contextmanager
def _collected_log_lines(library: ModuleType) -> Iterator[list[str]]:
    """Collect the errors that the library logs, because it raises nothing if a login fails."""
    log_lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.pathname == library.__file__:
                log_lines.append(record.getMessage())

    collector = Collector(logging.ERROR)
    logging.getLogger().addHandler(collector)
    try:
        yield log_lines
    finally:
        logging.getLogger().removeHandler(collector)


@contextmanager
def _stdin_from_terminal_only() -> Iterator[None]:
    """Replace standard input by /dev/null, unless it is a terminal. A login program would read from
    it, but it may be a pipe with records."""
    if os.isatty(STDIN):
        yield
        return
    try:
        kept = os.dup(STDIN)
    except OSError:  # standard input is closed
        yield
        return
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, STDIN)
        yield
    finally:
        os.dup2(kept, STDIN)
        os.close(kept)
        os.close(nothing)


@contextmanager
def _ca_of_identity_provider(user: Mapping[str, Any], merger: Any) -> Iterator[Callable[[], None]]:
    """Verify the certificate of an identity provider for which no CA is given. The library would
    accept any.

    Yields a function that writes renewed tokens back to the file, without that CA.
    """
    config = (user.get("auth-provider") or {}).get("config")
    names = ("idp-certificate-authority", "idp-certificate-authority-data")
    if not config or any(name in config for name in names):
        yield merger.save_changes
        return
    import certifi  # noqa: PLC0415 - comes with the library

    config[names[0]] = ssl.get_default_verify_paths().cafile or certifi.where()

    def persist() -> None:
        config.pop(names[0], None)
        merger.save_changes()

    try:
        yield persist
    finally:
        config.pop(names[0], None)


def _loaded(
    configuration: Any,
    expires_at_s: float | None,
    chosen: Mapping[str, Any],
    cluster: Mapping[str, Any],
    context: str,
) -> Loaded:
    """The result of a login: how to connect, and the identity. `chosen` is the context's entry, and
    `cluster` that of its cluster."""
    server = str(configuration.host)
    # A token file usually ends with a line break, which a header must not contain.
    header = configuration.api_key.get("BearerToken", "").strip()
    files = (configuration.cert_file, configuration.key_file)
    identity = Identity(
        headers={"Authorization": header} if header else {},
        pem=b"\n".join(Path(path).read_bytes() for path in files if path),
    )
    connection = Connection(
        server=server,
        ca=Path(configuration.ssl_ca_cert).read_bytes() if configuration.ssl_ca_cert else None,
        insecure=not configuration.verify_ssl,
        server_name=configuration.tls_server_name or "",
        proxy=_proxy(configuration.proxy or "", server, is_own=bool(cluster.get("proxy-url"))),
        namespace=str(chosen.get("namespace") or "default"),
    )
    return Loaded(connection, identity, expires_at_s, context)


def _proxy(url: str, server: str, *, is_own: bool) -> str:
    """The proxy to use; empty for none. `is_own` means that the kubeconfig names it. A proxy from
    the environment has exceptions (NO_PROXY)."""
    if not url or (not is_own and proxy_bypass(urlsplit(server).hostname or "")):
        return ""
    if urlsplit(url).scheme not in ("http", "https"):
        raise NoConnection(f"the proxy {url} is not supported: use an http:// or https:// proxy")
    return url
