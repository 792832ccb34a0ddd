"""What brokers pay for importing the package."""

import subprocess
import sys


def test_importing_it_does_not_import_the_http_library() -> None:
    program = (
        "import sys, chiplog_kube.http_api, chiplog_kube.reflector, chiplog_kube.connection;"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'yaml', 'kubernetes')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
