"""The cluster's programs, built from Go modules once and kept by content."""

import os
from pathlib import Path

from e2e.cluster import layout, packages
from e2e.cluster.cached import cached
from e2e.cluster.console import step
from e2e.cluster.content import content_key
from e2e.cluster.shell import run

MODULE = layout.SOURCE / "go"
KUBERNETES_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
# Clients read the server's version: without these flags it is v0.0.0-master+$Format.
_MAJOR, _MINOR = layout.KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
VERSION_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={layout.KUBERNETES_VERSION} "
    f"-X k8s.io/component-base/version.gitMajor={_MAJOR} "
    f"-X k8s.io/component-base/version.gitMinor={_MINOR} "
    f"-X k8s.io/client-go/pkg/version.gitVersion={layout.KUBERNETES_VERSION}"
)
# helm takes what it was built for as the version of a cluster that it does not ask: without these
# flags that is 1.20, and no chart with `kubeVersion` renders.
HELM_VERSION_FLAGS = " ".join(
    f"-X helm.sh/helm/v4/{variable}{part}={value}"
    for variable in (
        "pkg/chart/common.k8sVersion",
        "pkg/chart/v2/lint/rules.k8sVersion",
        "internal/chart/v3/lint/rules.k8sVersion",
        "internal/version.kubeClientVersion",
    )
    for part, value in (("Major", _MAJOR), ("Minor", _MINOR))
)
# Prefixes of the environment variables that tell Go how this machine reaches the module proxy.
PASSED_ON = ("GO", "HOME", "PATH", "HTTP", "HTTPS", "NO_PROXY", "http", "https", "no_proxy", "SSL")
# Target -> (Go package, linker flags, source directories: with go.mod and go.sum they make its
# key).
TARGETS = {
    "kubebox": ("./cmd/kubebox", VERSION_FLAGS, ("cmd/kubebox",)),
    "coredns": ("./cmd/coredns", "", ("cmd/coredns",)),
    "agent": ("./cmd/agent", "", ("cmd/agent",)),
    "pause": ("./cmd/pause", "", ("cmd/pause",)),
    "helm": ("helm.sh/helm/v4/cmd/helm", HELM_VERSION_FLAGS, ()),
    "actionlint": ("github.com/rhysd/actionlint/cmd/actionlint", "", ()),
}
OTHER_MODULES = {"actionlint": layout.CHECKOUT / "e2e" / "workflows"}
"""Targets with a Go module of their own: a change of the one module rebuilds no program of the
other."""


def program(name: str) -> Path:
    """The path of a program, which is built first if there is no build of the current sources.

    `name` is one of `TARGETS`, or of `KUBERNETES_PROGRAMS`, which are links to the one binary
    `kubebox`.
    """
    target = "kubebox" if name in KUBERNETES_PROGRAMS else name
    package, link_flags, directories = TARGETS[target]
    module = OTHER_MODULES.get(target, MODULE)
    sources = [
        module / "go.mod",
        module / "go.sum",
        *(module / directory for directory in directories),
    ]
    directory = layout.cache() / "go" / f"{target}-{content_key(sources, package, link_flags)}"
    return (
        cached(directory, lambda making: compile_into(making, target, package, link_flags)) / name
    )


def compile_into(directory: Path, target: str, package: str, link_flags: str) -> None:
    """Build one target of `TARGETS` into a directory."""
    with step(f"building {target} (Go)"):
        go(
            *("build", "-trimpath", f"-ldflags=-s -w {link_flags}", "-o", str(directory / target)),
            package,
            module=OTHER_MODULES.get(target, MODULE),
        )
    if target == "kubebox":
        for name in KUBERNETES_PROGRAMS:
            (directory / name).symlink_to(target)


def go(*arguments: str, module: Path = MODULE) -> str:
    """Run the go command in a module's directory, with the project's own caches; returns its
    output."""
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)},
        "GOCACHE": str(layout.cache() / "go-build"),
        "GOMODCACHE": str(layout.cache() / "go-mod"),
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly",
    }
    return run(str(packages.go()), *arguments, env=environment, cwd=module, timeout_s=3600)


def build_all() -> None:
    """Build every program the cluster itself runs."""
    for name in ("kubebox", "coredns", "agent", "pause"):
        program(name)
