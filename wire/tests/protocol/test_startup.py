"""What is imported before the first answer."""

import subprocess
import sys


def test_kios_serializers_are_not_imported_before_they_are_needed() -> None:
    """They and their message modules cost more than all our own code at start-up."""
    program = (
        "import sys, chiplog_wire.protocol.codec, chiplog_wire.protocol.framing\n"
        "print([name for name in sys.modules if name.startswith('kio.serial')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
