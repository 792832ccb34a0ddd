"""Java and Maven, from Debian where this machine has none."""

from e2e.cluster.console import Refused, step
from e2e.cluster.packages import present
from e2e.cluster.shell import CommandFailed, run

# Program -> the package that brings it. Kafka's broker needs Java 17 or newer.
PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "kcat": "kcat",
}


def program(name: str) -> str:
    """The name of a program that is there when this returns.

    Raises `Refused` where it is missing and apt-get cannot install it.
    """
    if not present(name):
        package = PACKAGES[name]
        with step(f"installing {package}"):
            environment = {
                "DEBIAN_FRONTEND": "noninteractive",
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            }
            install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
            try:
                run("apt-get", "update", "-qq", env=environment, timeout_s=300)
                run(*install, env=environment, timeout_s=900)
            except CommandFailed as failed:
                raise Refused(f"{name} is missing: apt-get install {package}: {failed}") from failed
    return name
