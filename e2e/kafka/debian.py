"""Java and Maven, from Debian where this machine has none."""

from e2e.cluster.packages import from_debian, present

# Program -> the package that brings it. Kafka's broker needs Java 17 or newer.
PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "kcat": "kcat",
}


def program(name: str) -> str:
    """Make sure that a program is installed; returns its name, for use in a command.

    Raises `Refused` if it is missing and apt-get cannot install its package.
    """
    if not present(name):
        from_debian(PACKAGES[name])
    return name
