"""Kubeconfigs to write, and a login program as clouds have them."""

import base64
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

API_VERSION = "client.authentication.k8s.io/v1"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(
    user: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    *,
    name: str = "here",
    **context: Any,
) -> dict[str, Any]:
    """One context with its cluster and user, all of one name, as the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": "http://127.0.0.1:1", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": dict(user or {})}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
    }


def written(folder: Path, value: Any, name: str = "config") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(yaml.safe_dump(value))
    return path


@dataclass(frozen=True, slots=True)
class LoginProgram:
    """Gives one credential after the other, the last again and again, and counts its runs."""

    folder: Path

    def gives(self, *statuses: Mapping[str, Any] | str) -> "LoginProgram":
        """What it prints as `status` at each run; a text is what it fails with."""
        (self.folder / "answers.json").write_text(json.dumps(statuses))
        return self

    @property
    def runs(self) -> int:
        counted = self.folder / "runs"
        return len(counted.read_text()) if counted.exists() else 0

    @property
    def environment(self) -> dict[str, str]:
        """Of its last run."""
        found: dict[str, str] = json.loads((self.folder / "environment.json").read_text())
        return found

    def user(self, command: Sequence[str] | None = None, **more: Any) -> dict[str, Any]:
        """The user of a kubeconfig who logs in by it."""
        script = self.folder / "login.py"
        script.write_text(
            textwrap.dedent(f"""\
                import json, os, sys
                from pathlib import Path

                folder = Path({str(self.folder)!r})
                with (folder / "runs").open("a") as runs:
                    runs.write("x")
                number = len((folder / "runs").read_text())
                (folder / "environment.json").write_text(json.dumps(dict(os.environ)))
                answers = json.loads((folder / "answers.json").read_text())
                answer = answers[min(number, len(answers)) - 1]
                if isinstance(answer, str):
                    sys.exit(answer)
                print(json.dumps(
                    {{"apiVersion": {API_VERSION!r}, "kind": "ExecCredential", "status": answer}}
                ))
                """)
        )
        first, *rest = command or (sys.executable, str(script))
        return {"exec": {"apiVersion": API_VERSION, "command": first, "args": rest, **more}}
